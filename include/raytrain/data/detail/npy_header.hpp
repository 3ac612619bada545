// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <raytrain/core/element_type.hpp>
#include <raytrain/data/detail/data_file.hpp>

namespace raytrain {
struct ColumnFormat;
}  // namespace raytrain

namespace raytrain::detail {

/// What a file of NumPy's says of itself.
struct NpyHeader {
  ElementType type = ElementType::float32;
  bool is_boolean = false;  ///< The type is uint8 then.
  bool is_big_endian = false;
  bool is_fortran_order = false;       ///< The first dimension's values lie beside one another.
  std::vector<std::size_t> extents{};  ///< The number of rows first.
  std::uint64_t header_bytes{};
  std::uint64_t data_bytes{};

  /// "60000 x 28 x 28 of uint8".
  [[nodiscard]] auto describe() const -> std::string;
};

/// The dictionary of a header: three names and their values, as Python writes them.
struct NpyDictionary {
  std::optional<std::string> descr;  ///< "[]" for any list, which is one of fields.
  std::optional<bool> fortran_order;
  std::optional<std::vector<std::size_t>> shape;
};

/// Reads a header's text, in which blanks may follow the dictionary. Returns what is wrong with it, or nothing.
[[nodiscard]] auto parse_npy_dictionary(std::string_view text, NpyDictionary& dictionary) -> std::optional<std::string>;

/// Errors: `invalid_data` for another file, and for arrays that no column can hold.
/// Source: NEP 1, "A simple file format for NumPy arrays", versions 1.0 to 3.0.
[[nodiscard]] auto read_npy_header(DataFile& file, std::string const& attempted) -> NpyHeader;

/// The file's beginning for an array of so many rows, its last line's blanks included. It is as long for any number of
/// them, so that it can be written anew behind the last one.
///
/// Errors: `invalid_data` for what NumPy has not: bfloat16, and more than 64 dimensions.
[[nodiscard]] auto npy_header_of(ColumnFormat const& format, std::size_t rows, std::string const& attempted)
    -> std::string;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/detail/npy_header-inl.hpp>
#endif
