// SPDX-License-Identifier: Apache-2.0
// What must hold for any bytes at all that are read as a file of data.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <zlib.h>
#include <zstd.h>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/csv.hpp>
#include <raytrain/data/csv_type.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/detail/csv_pieces.hpp>
#include <raytrain/data/detail/csv_scanner.hpp>
#include <raytrain/data/detail/data_file.hpp>
#include <raytrain/data/detail/join_rows.hpp>
#include <raytrain/data/idx.hpp>
#include <raytrain/data/json_lines.hpp>
#include <raytrain/data/libsvm.hpp>
#include <raytrain/data/npy.hpp>
#include <raytrain/data/write_csv.hpp>

#include "properties.hpp"

namespace raytrain::testing {

/// A file in a folder of its own, in memory where there is room for it, that goes away with the program.
class ScratchFile {
 public:
  ScratchFile() {
    auto const* const base = ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    folder_ = std::string{base} + "/raytrain-fuzz-XXXXXX";
    if (::mkdtemp(folder_.data()) == nullptr) throw std::runtime_error{"cannot make a folder in " + std::string{base}};
  }
  ScratchFile(ScratchFile const&) = delete;
  auto operator=(ScratchFile const&) -> ScratchFile& = delete;
  ~ScratchFile() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  [[nodiscard]] auto path() const -> std::filesystem::path { return folder_ + "/file"; }

  /// The file with this content.
  [[nodiscard]] auto holding(BytesView content) const -> std::filesystem::path {
    std::ofstream file{path(), std::ios::binary};
    file.exceptions(std::ios::badbit | std::ios::failbit);
    file << text_of(content);
    return path();
  }

 private:
  std::string folder_;
};

[[nodiscard]] inline auto scratch_file() -> ScratchFile const& {
  static ScratchFile const file;
  return file;
}

inline void require_same(Column const& first, Column const& again) {
  require(first.describe() == again.describe(), "a column has the same name, type and row shape after another round");
  first.visit([&]<Element T>(std::span<T const> values) {
    auto const is_same = [](T const& one, T const& other) {
      if constexpr (std::floating_point<T>) {
        if (std::isnan(one)) return std::isnan(other);  // texts do not tell a NaN's bits
      }
      return std::ranges::equal(std::as_bytes(std::span{&one, 1}), std::as_bytes(std::span{&other, 1}));
    };
    require(std::ranges::equal(values, again.as<T>(), is_same), "a column has the same values after another round");
  });
}

/// True if the bytes are a file of NumPy's.
inline auto check_npy(BytesView content) -> bool {
  auto const& file = scratch_file();
  auto const data = unless_refused(Errc::invalid_data, [&] { return read_npy(file.holding(content)); });
  if (!data) return false;
  auto const& column = data->column("data");
  write_npy(column, file.path());
  require_same(column, read_npy(file.path()).column("data"));
  return true;
}

[[nodiscard]] inline auto seeds_of(std::initializer_list<std::string_view> texts) -> std::vector<Bytes> {
  std::vector<Bytes> seeds;
  for (auto const text : texts) {
    auto const bytes = bytes_of(text);
    seeds.emplace_back(bytes.begin(), bytes.end());
  }
  return seeds;
}

/// The bytes as a gzip file.
[[nodiscard]] inline auto gzipped(BytesView content) -> Bytes {
  z_stream stream{};
  require(::deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK, "zlib begins");
  Bytes packed(::deflateBound(&stream, content.size()));
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  auto const code = ::deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  ::deflateEnd(&stream);
  require(code == Z_STREAM_END, "zlib packs all");
  return packed;
}

/// The bytes as a zstd file.
[[nodiscard]] inline auto zstd_compressed(BytesView content) -> Bytes {
  Bytes packed(::ZSTD_compressBound(content.size()));
  auto const size = ::ZSTD_compress(packed.data(), packed.size(), content.data(), content.size(), 1);
  require(::ZSTD_isError(size) == 0, "zstd packs all");
  packed.resize(size);
  return packed;
}

/// True if the bytes are a file of IDX's format.
inline auto check_idx(BytesView content) -> bool {
  auto const& file = scratch_file();
  auto const read = [&](BytesView bytes) {
    return unless_refused(Errc::invalid_data, [&] { return read_idx(file.holding(bytes)); });
  };
  auto const column = read(content);
  if (detail::compression_of(text_of(content)).empty()) {
    for (auto const& packed : {gzipped(content), zstd_compressed(content)}) {
      auto const same = read(packed);
      require(column.has_value() == same.has_value(), "a compressed file is refused where its content is");
      if (column) require_same(*column, *same);
    }
  }
  if (!column) return false;
  write_npy(*column, file.path());
  require_same(*column, read_npy(file.path()).column("data"));
  return true;
}

[[nodiscard]] inline auto idx_seeds() -> std::vector<Bytes> {
  using namespace std::string_view_literals;
  auto seeds = seeds_of({"\0\0\x08\2\0\0\0\2\0\0\0\3abcdef"sv, "\0\0\x0B\1\0\0\0\3\0\1\xFF\xFE\x7F\xFF"sv,
                         "\0\0\x0E\3\0\0\0\1\0\0\0\1\0\0\0\1\x3F\xF8\0\0\0\0\0\0"sv});
  for (std::size_t i = 0; i < 3; ++i) {
    seeds.push_back(gzipped(seeds[i]));
    seeds.push_back(zstd_compressed(seeds[i]));
  }
  return seeds;
}

/// What two workers take in turn, of which each skips the other's blocks, has this many rows in all, if it is not
/// refused.
template <class MakeBlocks>
void check_shards(MakeBlocks const& make_blocks, std::size_t rows) {
  (void)unless_refused(Errc::invalid_data, [&] {
    std::size_t taken = 0;
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      for (auto const& block : make_blocks().shard(Rank{rank}, WorldSize{2})) taken += block.rows();
    }
    require(taken == rows, "workers take as many rows as there are");
    return true;
  });
}

/// True if the bytes are a file of LIBSVM's format.
inline auto check_libsvm(BytesView content) -> bool {
  auto const& file = scratch_file();
  LibsvmOptions options{.max_bytes = std::size_t{1} << 20U};
  auto const data = unless_refused(Errc::invalid_data, [&] { return read_libsvm(file.holding(content), options); });
  if (!data) return false;
  auto const labels = data->column("label").as<float>();
  auto const features = data->column("features").as<float>();
  options.features = data->column("features").row_values();
  for (auto const zero_based : {false, true}) {
    options.zero_based = zero_based;
    check_shards([&] { return libsvm_blocks(file.path(), options, 2); }, data->rows());
  }
  options.zero_based = false;
  require(data->column("features").bytes().size() <= options.max_bytes, "dense features take at most what is said");
  std::string text;
  for (std::size_t row = 0; row < data->rows(); ++row) {
    text += fmt::format("{}", labels[row]);
    if (data->columns().size() > 2) text += fmt::format(" qid:{}", data->column("qid").as<std::int64_t>()[row]);
    for (std::size_t i = 0; i < *options.features; ++i) {
      auto const value = features[row * *options.features + i];
      if (value != 0 || std::signbit(value)) text += fmt::format(" {}:{}", i + 1, value);
    }
    text += '\n';
  }
  auto const again = read_libsvm(file.holding(bytes_of(text)), options);
  require(again.column_names() == data->column_names(), "a table has the same columns after another round");
  for (auto const& column : data->columns()) require_same(column, again.column(column.name()));
  return true;
}

/// With which a table, as one is read by these types or without, is read as it was.
[[nodiscard]] inline auto types_of(Dataset const& data) -> std::map<std::string, CsvType, std::less<>> {
  std::map<std::string, CsvType, std::less<>> types;
  for (auto const& column : data.columns()) {
    auto type = CsvType::float32;
    if (column.is_text()) {
      type = CsvType::text;
    } else if (column.type() == ElementType::float64) {
      type = CsvType::float64;
    } else if (column.type() == ElementType::int32) {
      type = CsvType::int32;
    } else if (column.type() == ElementType::int64) {
      type = CsvType::int64;
    } else if (column.type() == ElementType::uint8) {
      type = CsvType::boolean;
    }
    types.emplace(column.name(), type);
  }
  return types;
}

/// The fields of the first line that is read, as far as the text is a table of CSV.
[[nodiscard]] inline auto first_fields(std::string_view text, char delimiter, std::size_t skip_lines)
    -> std::vector<std::string> {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  std::vector<std::string> fields;
  auto is_over = false;
  auto const field = [&](std::string_view it) {
    if (!is_over) fields.emplace_back(it);
  };
  auto const line = [&] { is_over = true; };
  detail::CsvScanner scanner{delimiter, skip_lines};
  scanner.feed(text, field, line);
  scanner.finish(field, line);
  return fields;
}

/// How a table of CSV is read whose first bytes choose that: four for which, by turns, "\0\0\0\0" stands for nothing
/// but what is so without options.
struct CsvChoice {
  static constexpr std::size_t bytes = 4;

  explicit CsvChoice(BytesView choice) {
    auto const of = [&](std::size_t i) { return std::to_integer<unsigned>(choice[i]); };
    // A quote and the ends of lines are none.
    delimiter = of(0) % 2 == 0 ? ',' : std::string_view{";\t| 1-.e"}[of(0) / 2 % 8];
    header = of(1) % 2 == 0;
    skip_lines = of(1) / 2 % 4;
    max_rows = of(1) / 8 % 4;
    types = of(2);
    piece_bytes = 1 + of(3) % 16;
  }

  /// Of column `place`; none where the first field is to tell.
  [[nodiscard]] auto type(std::size_t place) const -> std::optional<CsvType> {
    auto const number = (types >> place % 3) % 8;
    if (number == 0 || number > 6) return std::nullopt;
    return static_cast<CsvType>(number - 1);
  }

  char delimiter;
  bool header;
  std::size_t skip_lines;
  std::size_t max_rows;  ///< 0: all.
  unsigned types;
  std::size_t piece_bytes;
};

/// The rows of a file, or why it is refused, read in pieces of so many bytes.
[[nodiscard]] inline auto rows_of_pieces(std::filesystem::path const& path, CsvOptions const& options,
                                         std::size_t piece_bytes) -> std::pair<std::optional<Dataset>, std::string> {
  detail::CsvTable const first{options, "read"};
  detail::DataFile file{path};
  detail::CsvPieces pieces{file, {.delimiter = options.delimiter, .piece_bytes = piece_bytes}};
  std::vector<Dataset> parts;
  std::string problem;
  auto const all = unless_refused(Errc::invalid_data, [&] {
    try {
      while (auto const piece = pieces.next()) {
        auto table = first;
        auto scanner = detail::CsvScanner::from_line(options.delimiter, piece->line_number);
        table.take_text(piece->text, scanner, true);
        parts.push_back(table.take());
      }
      return detail::join_rows(parts, "join");
    } catch (Error const& error) {
      problem = error.happened();
      throw;
    }
  });
  return {all, problem};
}

inline void require_same_table(Dataset const& first, Dataset const& again) {
  require(again.column_names() == first.column_names(), "a table has the same columns after another round");
  require(again.rows() == first.rows(), "a table has as many rows after another round");
  for (auto const& column : first.columns()) require_same(column, again.column(column.name()));
}

/// Small pieces, as threads read them, give what the whole gives. Every line is one of rows here.
inline void check_csv_pieces(BytesView content, CsvChoice const& choice) {
  if (!detail::compression_of(text_of(content)).empty()) return;
  CsvOptions options{.delimiter = choice.delimiter, .header = false};
  auto const fields = first_fields(text_of(content), choice.delimiter, 0);
  if (fields.empty()) return;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    options.column_names.push_back(std::to_string(i));
    options.types.emplace(std::to_string(i), choice.type(i).value_or(CsvType::text));
  }
  auto const path = scratch_file().holding(content);
  auto const [whole, why] = rows_of_pieces(path, options, content.size() + 1);
  auto const [joined, why_in_pieces] = rows_of_pieces(path, options, choice.piece_bytes);
  require(why == why_in_pieces, "pieces of a table are refused where the whole is, and for the same");
  if (whole) require_same_table(*whole, *joined);
}

/// True if the bytes are a choice of options, and a table of CSV.
inline auto check_csv(BytesView bytes) -> bool {
  if (bytes.size() < CsvChoice::bytes) return false;
  CsvChoice const choice{bytes.first(CsvChoice::bytes)};
  auto const content = bytes.subspan(CsvChoice::bytes);
  check_csv_pieces(content, choice);

  CsvOptions options{.delimiter = choice.delimiter, .skip_lines = choice.skip_lines, .header = choice.header};
  if (choice.max_rows > 0) options.max_rows = choice.max_rows;
  if (detail::compression_of(text_of(content)).empty()) {  // else its names are not known
    auto const fields = first_fields(text_of(content), choice.delimiter, choice.skip_lines);
    for (std::size_t i = 0; i < fields.size(); ++i) {
      if (auto const type = choice.type(i))
        options.types.emplace(options.header ? fields[i] : std::to_string(i), *type);
    }
  }
  auto const& file = scratch_file();
  auto const data = unless_refused(Errc::invalid_data, [&] { return read_csv(file.holding(content), options); });
  if (!data) return false;
  require(choice.max_rows == 0 || data->rows() <= choice.max_rows, "no more rows are read than there may be");
  check_shards([&] { return csv_blocks(file.path(), options, 2); }, data->rows());
  write_csv(*data, file.path());
  require_same_table(*data, read_csv(file.path(), {.types = types_of(*data)}));
  return true;
}

/// Each is a choice of options, and a table.
[[nodiscard]] inline auto csv_seeds() -> std::vector<Bytes> {
  using namespace std::string_view_literals;
  return seeds_of({"\0\0\0\0a,b\n1,x\n2.5,\n"sv, "\0\0\0\1\xEF\xBB\xBF\"a\"\"b\",\"c\nd\"\r\n-1e-3,\"x,y\"\r\nNA,NaN"sv,
                   "\0\0\0\2t\r\"\"\rx\r"sv, "\0\0\0\3\"\x1F\x8B\",\"(\xB5/\xFD\"\n1,2\n"sv,
                   "\0\0\0\0\"(\xB5/\xFD\"\n1\n"sv, "\3\1\x0C\4-7\t8\t9\n\"1\"\t20240131\t3\n"sv,
                   "\1\3\x35\5title\ntrue;2;x\n0;3;\"a\n\"\"b\"\n"sv, "\0\x10\2\6a,b,c\n1,2,3\n4,5,6\n7,8,9\n"sv});
}

/// True if the bytes are lines of JSON.
inline auto check_json_lines(BytesView content) -> bool {
  auto const& file = scratch_file();
  auto const data = unless_refused(Errc::invalid_data, [&] { return read_json_lines(file.holding(content)); });
  if (!data) return false;
  check_shards([&] { return json_lines_blocks(file.path(), {.types = types_of(*data)}, 2); }, data->rows());
  write_json_lines(*data, file.path());
  auto const again = read_json_lines(file.path(), {.types = types_of(*data)});
  require(again.column_names() == data->column_names(), "lines have the same columns after another round");
  for (auto const& column : data->columns()) {
    auto const is_all_missing =
        !column.is_text() && std::ranges::all_of(column.as<float>(), [](float value) { return std::isnan(value); });
    if (!is_all_missing) require_same(column, again.column(column.name()));
  }
  return true;
}

[[nodiscard]] inline auto json_lines_seeds() -> std::vector<Bytes> {
  return seeds_of({"{\"a\":41.0,\"t\":\"x\\u00f6\",\"ok\":true,\"x\":[[1.5,null],[2,3]]}\n{\"t\":null}\n",
                   "{ \"b\" : -0 }\r\n\n{}"});
}

[[nodiscard]] inline auto libsvm_seeds() -> std::vector<Bytes> {
  return seeds_of(
      {"# comment\n1 qid:3 1:0.5 3:-2\n-1 qid:3 3:1e-3\r\n0.25 qid:7\n", "+1\t0:1 \t 2:inf #x\n\n-2 1:-nan 40:+5e-50"});
}

[[nodiscard]] inline auto npy_seeds() -> std::vector<Bytes> {
  std::vector<Bytes> seeds;
  auto const add = [&](std::string_view dictionary, std::size_t data_bytes) {
    std::string const begin{"\x93NUMPY\x01\0", 8};
    auto const text = begin + static_cast<char>(dictionary.size() + 1) + '\0' + std::string{dictionary} + '\n' +
                      std::string(data_bytes, '\x3f');
    auto const bytes = bytes_of(text);
    seeds.emplace_back(bytes.begin(), bytes.end());
  };
  add("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }", 24);
  add("{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3, 2), }", 24);
  add("{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }", 2);
  add("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (), }", 0);
  return seeds;
}

}  // namespace raytrain::testing
