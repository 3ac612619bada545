// SPDX-License-Identifier: Apache-2.0
// Files that are cut, changed, replaced or removed while threads read pieces of them ahead.
#include <array>
#include <atomic>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <raytrain/core/identifiers.hpp>
#include <raytrain/data/csv.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/data/detail/pieces_ahead.hpp>
#include <raytrain/data/json_lines.hpp>
#include <raytrain/data/libsvm.hpp>
#include <raytrain/data/materialize.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/text_files.hpp"
#include "../support/thrown_error.hpp"

namespace {

using namespace raytrain;
using namespace raytrain::testing;
namespace fs = std::filesystem;

constexpr std::size_t file_rows = 70'000;

/// A format whose files are read by `RowsOfLines` or `CsvPieces`.
struct Format {
  std::string header;
  std::function<std::string(std::size_t row)> line;
  std::function<DatasetBlocks(fs::path const& file)> blocks;
};

auto formats() -> std::vector<Format> {
  constexpr std::size_t block_rows = 1'000;
  return {
      {"x,y,a text that fills the line\n",
       [](std::size_t row) {
         return fmt::format("{},{}.5,this is what fills a line of the file: {} bytes\n", row, row, 61);
       },
       [](fs::path const& file) { return csv_blocks(file, {}, block_rows); }},
      {"",
       [](std::size_t row) {
         return fmt::format("{{\"x\": {}, \"y\": {}.5, \"text\": \"this fills a line of the file\"}}\n", row, row);
       },
       [](fs::path const& file) { return json_lines_blocks(file, {}, block_rows); }},
      {"",
       [](std::size_t row) {
         return fmt::format("{} 0:{}.5 1:0.123456789 2:0.123456789 3:0.123456789 4:0.123456789\n", row % 2, row);
       },
       [](fs::path const& file) { return libsvm_blocks(file, {.features = 5, .zero_based = true}, block_rows); }},
  };
}

void write(Format const& format, fs::path const& path) {
  std::string text = format.header;
  for (std::size_t row = 0; row < file_rows; ++row) text += format.line(row);
  write_text(path, text);
  REQUIRE(fs::file_size(path) > detail::least_bytes_of_pieces);
}

struct Change {
  std::function<void(fs::path const& path)> make;
  std::string said;
};

auto changes() -> std::vector<Change> {
  auto const said = "it was changed meanwhile";
  return {{[](fs::path const& path) { fs::resize_file(path, fs::file_size(path) / 2); }, said},
          {[](fs::path const& path) {
             std::ofstream{path, std::ios::app} << "1\n";
           },
           said},
          {[](fs::path const& path) {
             fs::copy_file(path, path.string() + ".other");
             fs::rename(path.string() + ".other", path);
           },
           said},
          {[](fs::path const& path) { fs::remove(path); }, "there is no such file"}};
}

TEST_CASE(
    "no block comes of a file that was cut, changed, replaced or removed since the block before, and it is named") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "rows";
  for (auto const& format : formats()) {
    for (auto const& change : changes()) {
      write(format, path);
      auto blocks = format.blocks(path);
      CHECK(blocks.next().value().rows() >= 1'000);
      CHECK(blocks.next().value().rows() >= 1'000);
      auto shard = format.blocks(path).shard(Rank{0}, WorldSize{1'000});
      CHECK(shard.next().value().rows() >= 1'000);
      change.make(path);
      check_contains(thrown_error([&] { (void)shard.next(); }), change.said);
      auto const error = thrown_error([&] { (void)blocks.next(); });
      check_contains(error, "read '" + path.string() + "'");
      check_contains(error, change.said);
      CHECK(thrown_error([&] { (void)blocks.next(); }) == error);  // not as if it had ended
    }
  }
}

TEST_CASE(
    "of a file that is cut or removed while two materialize it both are told, and no rows are left for a next start") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "rows";
  auto const into = folder.path() / "folder";
  for (auto const& format : formats()) {
    for (auto const& change : {changes().front(), changes().back()}) {
      write(format, path);
      std::atomic<bool> is_changed = false;
      std::array<std::string, 2> errors;
      std::vector<DatasetBlocks> blocks;  // of the file as it is before either of them changes it
      for (std::size_t rank = 0; rank < errors.size(); ++rank) {
        blocks.push_back(format.blocks(path).map("watched", [&](Dataset const& block) {
          if (!is_changed.exchange(true)) change.make(path);
          return block;
        }));
      }
      std::vector<std::thread> ranks;
      for (std::size_t rank = 0; rank < errors.size(); ++rank) {
        ranks.emplace_back([&, rank] { errors[rank] = thrown_error([&] { (void)materialize(into, blocks[rank]); }); });
      }
      for (auto& rank : ranks) rank.join();
      for (auto const& error : errors) {
        check_contains(error, path.string());
        check_contains(error, change.said);
      }
      CHECK_FALSE(thrown_error([&] { (void)open_dataset(into); }).empty());
    }
  }
}

}  // namespace
