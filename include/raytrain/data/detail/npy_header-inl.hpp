// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/detail/data_file.hpp>
#include <raytrain/data/detail/npy_header.hpp>
#include <raytrain/data/detail/shown_field.hpp>

namespace raytrain::detail {

inline constexpr std::string_view npy_magic = "\x93NUMPY";
inline constexpr std::string_view npy_booleans = "b1";
inline constexpr char const* npy_records = "[]";        // in place of a list of fields
inline constexpr std::size_t most_npy_dimensions = 64;  // NumPy's own limit

/// NumPy's letter for the kind and the size in bytes of a type; nothing for bfloat16, which NumPy has not.
[[nodiscard]] constexpr auto npy_code(ElementType type) noexcept -> std::string_view {
  switch (type) {
    case ElementType::float16: return "f2";
    case ElementType::float32: return "f4";
    case ElementType::float64: return "f8";
    case ElementType::int8: return "i1";
    case ElementType::int16: return "i2";
    case ElementType::int32: return "i4";
    case ElementType::int64: return "i8";
    case ElementType::uint8: return "u1";
    case ElementType::uint16: return "u2";
    case ElementType::uint32: return "u4";
    case ElementType::uint64: return "u8";
    case ElementType::bfloat16: return "";
  }
  return "";
}

[[nodiscard]] constexpr auto npy_element_type(std::string_view code) noexcept -> std::optional<ElementType> {
  if (code == npy_booleans) return ElementType::uint8;
  for (auto number = 0; number <= static_cast<int>(ElementType::float16); ++number) {
    auto const type = static_cast<ElementType>(number);
    if (npy_code(type) == code) return type;
  }
  return std::nullopt;
}

/// A dictionary as Python's repr writes it, and nothing else that Python could read.
class NpyParser {
 public:
  explicit NpyParser(std::string_view text) : text_{text} {}

  [[nodiscard]] auto parse(NpyDictionary& dictionary) -> std::optional<std::string> {
    if (!take('{')) return "a { is missing";
    while (!take('}')) {
      auto const name = text();
      if (!name || !take(':')) return "a name in quotes or a colon is missing";
      if (auto problem = value(*name, dictionary)) return problem;
      if (take(',')) continue;
      if (!take('}')) return "a comma or } is missing";
      break;
    }
    if (skip_blanks(); !text_.empty()) return "something follows its dictionary";
    if (!dictionary.descr || !dictionary.fortran_order || !dictionary.shape) {
      return "one of 'descr', 'fortran_order' and 'shape' is missing";
    }
    return std::nullopt;
  }

 private:
  [[nodiscard]] auto value(std::string_view name, NpyDictionary& dictionary) -> std::optional<std::string> {
    if (name == "descr" && !dictionary.descr) {
      dictionary.descr = next() == '[' ? skip_list() : text();
      return dictionary.descr ? std::nullopt : std::optional<std::string>{"'descr' is no text"};
    }
    if (name == "fortran_order" && !dictionary.fortran_order) {
      if (take_word("True")) dictionary.fortran_order = true;
      if (!dictionary.fortran_order && take_word("False")) dictionary.fortran_order = false;
      return dictionary.fortran_order ? std::nullopt : std::optional<std::string>{"'fortran_order' is no bool"};
    }
    if (name == "shape" && !dictionary.shape) {
      dictionary.shape = shape();
      return dictionary.shape ? std::nullopt : std::optional<std::string>{"'shape' is no tuple of whole numbers"};
    }
    return fmt::format("the name '{}' is unknown, or comes twice", shown_field(name));
  }

  /// The fields of a structured array, of which no more is read.
  [[nodiscard]] auto skip_list() -> std::optional<std::string> {
    auto const end = text_.rfind(']');
    if (end == std::string_view::npos) return std::nullopt;
    text_.remove_prefix(end + 1);
    return npy_records;
  }

  [[nodiscard]] auto text() -> std::optional<std::string> {
    auto const quote = next();
    if (quote != '\'' && quote != '"') return std::nullopt;
    auto const end = text_.find(quote, 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string result{text_.substr(1, end - 1)};
    text_.remove_prefix(end + 1);
    if (result.find('\\') != std::string::npos) return std::nullopt;
    return result;
  }

  [[nodiscard]] auto shape() -> std::optional<std::vector<std::size_t>> {
    std::vector<std::size_t> extents;
    if (!take('(')) return std::nullopt;
    if (take(')')) return extents;
    while (true) {
      skip_blanks();
      std::size_t extent{};
      auto const [end, problem] = std::from_chars(text_.data(), text_.data() + text_.size(), extent);
      if (problem != std::errc{}) return std::nullopt;
      text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
      extents.push_back(extent);
      auto const comma = take(',');
      if (take(')')) return extents.size() > 1 || comma ? std::optional{std::move(extents)} : std::nullopt;
      if (!comma) return std::nullopt;
    }
  }

  void skip_blanks() {
    while (!text_.empty() && (text_.front() == ' ' || text_.front() == '\n')) text_.remove_prefix(1);
  }

  /// A zero at the end, which nothing accepts.
  [[nodiscard]] auto next() -> char {
    skip_blanks();
    return text_.empty() ? '\0' : text_.front();
  }

  auto take(char expected) -> bool {
    if (next() != expected || text_.empty()) return false;
    text_.remove_prefix(1);
    return true;
  }

  auto take_word(std::string_view word) -> bool {
    skip_blanks();
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }

  std::string_view text_;
};

RAYTRAIN_INLINE auto parse_npy_dictionary(std::string_view text, NpyDictionary& dictionary)
    -> std::optional<std::string> {
  return NpyParser{text}.parse(dictionary);
}

RAYTRAIN_INLINE auto NpyHeader::describe() const -> std::string {
  return fmt::format("{} of {}", fmt::join(extents, " x "), is_boolean ? "bool" : to_string(type));
}

/// The text of the dictionary and how many bytes lie before it.
[[nodiscard]] RAYTRAIN_INLINE auto read_npy_text(DataFile& file, std::string const& attempted)
    -> std::pair<std::string, std::uint64_t> {
  auto const refuse = [&](std::string happened) {
    return Error{Errc::invalid_data, attempted, std::move(happened),
                 "name a file that numpy.save has written; arrays of a .npz file are in a zip archive: unpack it"};
  };
  auto const read = [&](std::string& text) {
    auto const got = file.read(std::as_writable_bytes(std::span{text}));
    if (got < text.size()) throw refuse("it ends within its header");
  };
  std::string begin(npy_magic.size() + 2, '\0');
  read(begin);
  auto const major = static_cast<unsigned char>(begin[npy_magic.size()]);
  auto const minor = static_cast<unsigned char>(begin[npy_magic.size() + 1]);
  if (!begin.starts_with(npy_magic)) throw refuse("it does not begin with \\x93NUMPY");
  if (major < 1 || major > 3 || minor != 0) throw refuse(fmt::format("its format is {}.{}", major, minor));
  std::string length(major == 1 ? 2 : 4, '\0');
  read(length);
  std::size_t text_bytes = 0;
  for (std::size_t i = 0; i < length.size(); ++i) {
    text_bytes |= std::size_t{static_cast<unsigned char>(length[i])} << (8 * i);
  }
  constexpr std::size_t most = std::size_t{64} << 10U;  // far more than the shape of 64 dimensions takes
  if (text_bytes > most) throw refuse(fmt::format("its header has {} bytes, more than {}", text_bytes, most));
  std::string text(text_bytes, '\0');
  read(text);
  return {std::move(text), begin.size() + length.size()};
}

RAYTRAIN_INLINE auto read_npy_header(DataFile& file, std::string const& attempted) -> NpyHeader {
  auto const refuse = [&](std::string happened, std::string remedy = "write it by numpy.save") {
    return Error{Errc::invalid_data, attempted, std::move(happened), std::move(remedy)};
  };
  auto const [text, bytes_before] = read_npy_text(file, attempted);
  NpyDictionary dictionary;
  if (auto const problem = parse_npy_dictionary(text, dictionary)) throw refuse("its header is wrong: " + *problem);
  auto const& descr = *dictionary.descr;
  if (descr == npy_records) throw refuse("it is an array of records", "save each field as an array of its own");
  auto const code_here = std::string_view{descr}.substr(descr.empty() ? 0 : 1);
  auto const type = npy_element_type(code_here);
  auto const has_order =
      descr.starts_with('<') || descr.starts_with('>') || (descr.starts_with('|') && type && size_bytes(*type) == 1);
  if (!type || !has_order) {
    throw refuse(fmt::format("its type is '{}', which no column has", shown_field(descr)),
                 "save it as numbers of up to 8 bytes, for instance array.astype(numpy.float32)");
  }
  NpyHeader header{.type = *type,
                   .is_boolean = code_here == npy_booleans,
                   .is_big_endian = descr.starts_with('>'),
                   .is_fortran_order = *dictionary.fortran_order,
                   .extents = std::move(*dictionary.shape),
                   .header_bytes = bytes_before + text.size(),
                   .data_bytes = size_bytes(*type)};
  if (header.extents.empty()) throw refuse("it is one number without a dimension", "save numpy.atleast_1d of it");
  if (header.extents.size() > most_npy_dimensions) {
    throw refuse(fmt::format("it has {} dimensions, more than NumPy's {}", header.extents.size(), most_npy_dimensions));
  }
  for (std::size_t i = 0; i < header.extents.size(); ++i) {
    auto const extent = header.extents[i];
    if (i > 0 && extent == 0)
      throw refuse(fmt::format("its dimension {} is 0, so its rows are empty", i), "leave it out");
    if (extent != 0 && header.data_bytes > std::numeric_limits<std::uint64_t>::max() / 2 / extent) {
      throw refuse(fmt::format("it promises {}, more than any file holds", header.describe()), "fetch it again");
    }
    header.data_bytes *= extent;
  }
  return header;
}

RAYTRAIN_INLINE auto npy_header_of(ColumnFormat const& format, std::size_t rows, std::string const& attempted)
    -> std::string {
  auto const refuse = [&](std::string happened, std::string remedy) {
    return Error{Errc::invalid_data, attempted, std::move(happened), std::move(remedy)};
  };
  auto const code = format.is_boolean ? npy_booleans : npy_code(format.type);
  if (code.empty()) {
    throw refuse(fmt::format("column '{}' holds {}, which NumPy has not", format.name, to_string(format.type)),
                 "make float32 of it");
  }
  if (format.row_shape.size() >= most_npy_dimensions) {
    throw refuse(fmt::format("column '{}' has rows of {} dimensions", format.name, format.row_shape.size()),
                 fmt::format("NumPy has at most {} with that of the rows: make them fewer", most_npy_dimensions));
  }
  constexpr auto native = std::endian::native == std::endian::little ? '<' : '>';
  auto const order = size_bytes(format.type) == 1 ? '|' : native;
  auto const count = fmt::format("{}", rows);
  auto text = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({},{}{}), }}", order, code, count,
                          format.row_shape.empty() ? "" : " ", fmt::join(format.row_shape, ", "));
  text.append(std::numeric_limits<std::size_t>::digits10 + 1 - count.size(), ' ');
  constexpr std::size_t alignment = 64;  // of the data in the file, so that it can be mapped
  auto const before = npy_magic.size() + 4;
  text.append(alignment - 1 - (before + text.size()) % alignment, ' ');
  text += '\n';
  return fmt::format("{}\x01{}{}{}{}", npy_magic, '\0', static_cast<char>(text.size() & 0xffU),
                     static_cast<char>(text.size() >> 8U), text);
}

}  // namespace raytrain::detail
