// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/data/detail/dataset_folder.hpp>
#include <raytrain/data/detail/join_rows.hpp>
#include <raytrain/data/materialize.hpp>

namespace raytrain::detail {

/// Writes the rows of all blocks. Errors: those of `materialize`.
[[nodiscard]] RAYTRAIN_INLINE auto write_blocks(DatasetFolder const& folder, DatasetBlocks& blocks,
                                                std::string const& attempted) -> DatasetManifest {
  DatasetManifest manifest{.source = blocks.source()};
  std::vector<std::unique_ptr<ColumnWriter>> writers;
  Dataset first_columns;  // of the first block, without its rows
  for (auto const& block : blocks) {
    if (block.rows() == 0) continue;
    if (writers.empty()) {
      if (block.columns().empty()) {
        throw Error{Errc::invalid_data, attempted, "the rows have no column", "give them some"};
      }
      first_columns = without_rows(block);
      for (auto const& column : block.columns()) {
        auto const& entry = manifest.columns.emplace_back(
            DatasetManifest::ColumnEntry{.name = column.name(),
                                         .file = fmt::format("column_{}.npy", manifest.columns.size()),
                                         .type = std::string{type_of_values(column)},
                                         .row_shape = {column.row_shape().begin(), column.row_shape().end()}});
        writers.push_back(std::make_unique<ColumnWriter>(folder.path() / entry.file, column.format(), attempted));
      }
    }
    if (auto const differences = column_differences(first_columns, block); !differences.empty()) {
      throw Error{
          Errc::invalid_data, attempted,
          fmt::format("the rows from {} on have other columns than those before: {}", manifest.rows,
                      fmt::join(differences, ", ")),
          "give all blocks the same names, types and row shapes; for CSV files, name types in CsvOptions::types"};
    }
    auto const columns = columns_as_in(first_columns, block);
    for (std::size_t i = 0; i < writers.size(); ++i) writers[i]->append(*columns[i]);
    manifest.rows += block.rows();
  }
  if (writers.empty()) throw Error{Errc::invalid_data, attempted, "no block has a row", "look at the blocks' source"};
  for (std::size_t i = 0; i < writers.size(); ++i) manifest.columns[i].categories = writers[i]->finish();
  manifest.is_complete = true;
  return manifest;
}

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_INLINE auto materialize(std::filesystem::path const& path, DatasetBlocks blocks,
                                 std::function<void()> const& while_waiting) -> Dataset {
  auto const attempted = fmt::format("materialize into '{}'", path.string());
  blocks.check_is_fresh(attempted);
  auto const is_complete = [&](std::optional<detail::DatasetManifest> const& manifest) {
    if (!manifest || !manifest->is_complete) return false;
    if (manifest->source == blocks.source()) return true;
    throw Error{Errc::invalid_data, attempted,
                fmt::format("it holds the rows of another source: {}; now it is {}", manifest->source, blocks.source()),
                "name another folder, or remove this one"};
  };
  auto manifest = detail::find_dataset_manifest(path);
  if (!is_complete(manifest)) {
    detail::DatasetFolder const folder{path, while_waiting};
    manifest = detail::find_dataset_manifest(path);  // somebody else may have written it meanwhile
    if (!is_complete(manifest)) {
      folder.begin(blocks.source());
      manifest = detail::write_blocks(folder, blocks, attempted);
      folder.write_manifest(*manifest);
    }
  }
  return detail::open_columns(path, *manifest);
}

RAYTRAIN_INLINE auto open_dataset(std::filesystem::path const& folder) -> Dataset {
  return detail::open_columns(folder, detail::read_dataset_manifest(folder));
}

}  // namespace raytrain
