// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <raytrain/data/data_paths.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/data/detail/file_blocks.hpp>
#include <raytrain/data/detail/file_state.hpp>
#include <raytrain/data/detail/line_reader.hpp>

namespace raytrain::detail {

/// The rows of all files as a `Table`, which is `JsonTable` or `LibsvmTable`, makes them of lines.
template <class Table, class Options>
[[nodiscard]] auto table_of_lines(DataPaths const& paths, Options const& options) -> Dataset {
  Table table{options};
  for (auto const& path : paths.files()) {
    read_unchanged(path, [&] {
      table.begin_file(path.string());
      LineReader lines{path, options.max_unpack_ratio, Table::options_name() + "::max_unpack_ratio"};
      while (auto const line = lines.next()) table.add_line(*line, lines.number());
    });
  }
  table.finish();  // first, since a column that no line has would lack its integers
  return table.take();
}

/// The same in `blocks`, whose `next` and `finish` are made here.
template <class Table, class Options>
[[nodiscard]] auto blocks_of_lines(DataPaths const& paths, Options options, FileBlocksOptions blocks) -> DatasetBlocks {
  struct Reading {
    explicit Reading(Options given) : options{std::move(given)} {}

    Options options;
    Table table{options};
    std::optional<LineReader> lines{};  // of the file that is read
  };
  auto const reading = std::make_shared<Reading>(std::move(options));
  blocks.next = [reading, rows = blocks.rows](std::filesystem::path const& path,
                                              bool begins) -> std::optional<Dataset> {
    auto& [kept, table, lines] = *reading;
    if (begins) {
      table.begin_file(path.string());
      lines.emplace(path, kept.max_unpack_ratio, Table::options_name() + "::max_unpack_ratio");
    }
    while (table.rows() < rows) {
      auto const line = lines->next();
      if (!line) break;
      table.add_line(*line, lines->number());
    }
    if (table.rows() == 0) return std::nullopt;
    return table.take();
  };
  blocks.finish = [reading] { reading->table.finish(); };
  return file_blocks(paths, std::move(blocks));
}

}  // namespace raytrain::detail
