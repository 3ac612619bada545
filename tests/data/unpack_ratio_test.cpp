// SPDX-License-Identifier: Apache-2.0
#include <zlib.h>
#include <zstd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/data/csv.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/idx.hpp>
#include <raytrain/data/json_lines.hpp>
#include <raytrain/data/libsvm.hpp>
#include <raytrain/data/npy.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/text_files.hpp"
#include "../support/thrown_error.hpp"
#include "gzip_file.hpp"

namespace {

using namespace raytrain;
using raytrain::testing::check_contains;
using raytrain::testing::TemporaryFolder;
using raytrain::testing::thrown_error;
namespace fs = std::filesystem;

/// A bit more than 64 MiB of that line.
auto repeated(std::string const& line) -> std::string {
  std::string all;
  while (all.size() <= std::size_t{64} << 20U) all += line;
  return all;
}

auto lines_of(std::string_view text) -> std::size_t {
  std::size_t lines = 0;
  for (auto const letter : text) lines += letter == '\n' ? 1 : 0;
  return lines;
}

auto write_zstd(fs::path const& path, std::string const& content) -> fs::path {
  std::string packed(::ZSTD_compressBound(content.size()), '\0');
  packed.resize(::ZSTD_compress(packed.data(), packed.size(), content.data(), content.size(), 1));
  return write_text(path, packed);
}

}  // namespace

TEST_CASE("a small file that unpacks to very many rows is refused, unless the options say otherwise") {
  TemporaryFolder const folder;
  auto const text = std::string(500, 'a');
  auto const csv = repeated(text + '\n');
  for (auto const& path : {write_zstd(folder.path() / "x.csv.zst", csv), write_gzip(folder.path() / "x.csv.gz", csv)}) {
    auto const error = thrown_error([&] { return read_csv(path); });
    check_contains(error, "invalid_data: read '" + path.string() + "': its " + std::to_string(fs::file_size(path)) +
                              " bytes unpack to more than 64 MiB and 200 times as much, as those of a file do that is "
                              "made to fill the memory");
    check_contains(error, "if you trust it, raise CsvOptions::max_unpack_ratio, or unpack it");
    CHECK(read_csv(path, {.max_rows = 10}).rows() == 10);
    CHECK(read_csv(path, {.max_unpack_ratio = 1'000'000}).rows() == lines_of(csv) - 1);
  }
  std::size_t rows = 0;
  check_contains(thrown_error([&] {
                   for (auto const& block : csv_blocks(folder.path() / "x.csv.zst")) rows += block.rows();
                 }),
                 "raise CsvOptions::max_unpack_ratio");
  CHECK(rows > 0);
  auto const json = write_zstd(folder.path() / "x.jsonl.zst", repeated("{\"t\":\"" + text + "\"}\n"));
  check_contains(thrown_error([&] { return read_json_lines(json); }), "raise JsonLinesOptions::max_unpack_ratio");
  CHECK(read_json_lines(json, {.max_unpack_ratio = 1'000'000}).rows() > 100'000);
  auto const libsvm = write_zstd(folder.path() / "x.svm.zst", repeated("1 1:0." + std::string(500, '0') + "\n"));
  check_contains(thrown_error([&] { return read_libsvm(libsvm); }), "raise LibsvmOptions::max_unpack_ratio");
  CHECK(read_libsvm(libsvm, {.max_unpack_ratio = 1'000'000}).rows() > 100'000);
}

TEST_CASE("a small file that unpacks to a very large array is refused, unless NumPy's options say otherwise") {
  TemporaryFolder const folder;
  constexpr std::size_t rows = (std::size_t{64} << 20U) + 1;
  write_npy({"data", std::vector<std::uint8_t>(rows)}, folder.path() / "x.npy");
  auto const npy = read_text(folder.path() / "x.npy");
  for (auto const& path : {write_zstd(folder.path() / "x.npy.zst", npy), write_gzip(folder.path() / "x.npy.gz", npy)}) {
    auto const error = thrown_error([&] { return read_npy(path); });
    check_contains(error, "unpack to more than 64 MiB and 200 times as much");
    check_contains(error, "if you trust it, raise NpyOptions::max_unpack_ratio, or unpack it");
    CHECK(read_npy(path, {.max_unpack_ratio = 1'000'000}).rows() == rows);
  }
  std::string const idx = std::string{"\0\0\x08\x01\x04\0\0\x01", 8} + std::string(rows, '\0');
  auto const path = write_zstd(folder.path() / "x.idx.zst", idx);
  check_contains(thrown_error([&] { return read_idx(path); }), "to fill the memory; if you trust it, unpack it");
  write_text(folder.path() / "x.idx", idx);
  CHECK(read_idx(folder.path() / "x.idx").rows() == rows);
}

TEST_CASE("a small file of the same text, not compressed, and one that unpacks to little are read") {
  TemporaryFolder const folder;
  auto const csv = repeated(std::string(500, 'a') + '\n');
  write_text(folder.path() / "x.csv", csv);
  CHECK(read_csv(folder.path() / "x.csv", {.max_unpack_ratio = 1}).rows() == lines_of(csv) - 1);
  auto const small = csv.substr(0, std::size_t{1} << 20U);
  CHECK(read_csv(write_zstd(folder.path() / "x.csv.zst", small), {.max_unpack_ratio = 1}).rows() == lines_of(small));
}
