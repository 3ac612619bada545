// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/data_paths.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/detail/data_file.hpp>
#include <raytrain/data/detail/new_file.hpp>
#include <raytrain/data/detail/npy_header.hpp>
#include <raytrain/data/detail/read_body.hpp>
#include <raytrain/data/detail/read_each.hpp>
#include <raytrain/data/detail/swapped_bytes.hpp>
#include <raytrain/data/npy.hpp>

namespace raytrain::detail {

/// Copies values whose first dimension lies beside one another so that the last one does; `Word` has a value's size.
template <class Word>
void copy_fortran_order(std::byte const* from, std::byte* to, std::span<std::size_t const> extents) {
  auto const rows = extents.front();
  auto const shape = extents.subspan(1);
  std::vector<std::size_t> strides;
  auto values = std::size_t{1};
  for (auto const extent : shape) {
    strides.push_back(rows * values);
    values *= extent;
  }
  constexpr std::size_t block = 64;  // rows whose values are in the cache on both sides
  std::vector<std::size_t> place(shape.size());
  for (std::size_t first = 0; first < rows; first += block) {
    auto const last = std::min(rows, first + block);
    std::size_t start = 0;
    for (std::size_t value = 0; value < values; ++value) {
      for (auto row = first; row < last; ++row) {
        std::memcpy(to + (row * values + value) * sizeof(Word), from + (start + row) * sizeof(Word), sizeof(Word));
      }
      for (auto i = shape.size();
           i-- > 0;) {  // the next place of a row in C's order: the last dimension is the fastest
        start += strides[i];
        if (++place[i] < shape[i]) break;
        start -= strides[i] * std::exchange(place[i], 0);
      }
    }
  }
}

[[nodiscard]] RAYTRAIN_INLINE auto in_c_order(std::shared_ptr<std::byte[]> const& data, NpyHeader const& header)
    -> std::shared_ptr<std::byte[]> {
  std::shared_ptr<std::byte[]> copy =
      std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(header.data_bytes));
  auto const copy_words = [&]<class Word>(Word*) { copy_fortran_order<Word>(data.get(), copy.get(), header.extents); };
  switch (size_bytes(header.type)) {
    case 1: copy_words(static_cast<std::uint8_t*>(nullptr)); break;
    case 2: copy_words(static_cast<std::uint16_t*>(nullptr)); break;
    case 4: copy_words(static_cast<std::uint32_t*>(nullptr)); break;
    default: copy_words(static_cast<std::uint64_t*>(nullptr)); break;
  }
  return copy;
}

[[nodiscard]] RAYTRAIN_INLINE auto read_npy_file(std::filesystem::path const& path, NpyOptions const& options)
    -> Dataset {
  auto const attempted = fmt::format("read NumPy file '{}'", path.string());
  DataFile file{path};
  auto const header = read_npy_header(file, attempted);
  auto data = read_body(file, {attempted, header.describe(), header.header_bytes, header.data_bytes});
  auto const rows = header.extents.front();
  if (header.is_big_endian != (std::endian::native == std::endian::big)) {
    swap_bytes(std::span{data.get(), static_cast<std::size_t>(header.data_bytes)}, header.type);
  }
  auto const has_two = std::ranges::count_if(header.extents, [](auto extent) { return extent > 1; }) > 1;
  if (header.is_fortran_order && has_two && rows > 0) data = in_c_order(data, header);
  return Dataset::from_columns(
      {Column{ColumnFormat{options.column, header.type, RowShape(header.extents.begin() + 1, header.extents.end())},
              std::shared_ptr<std::byte const>{data, data.get()}, rows}});
}

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_INLINE auto read_npy(DataPaths const& paths, NpyOptions const& options) -> Dataset {
  return detail::read_each(paths, [&](auto const& path) { return detail::read_npy_file(path, options); });
}

RAYTRAIN_INLINE void write_npy(Column const& column, std::filesystem::path const& path) {
  auto const attempted = fmt::format("write NumPy file '{}'", path.string());
  column.check_holds_numbers(attempted);
  auto const header = detail::npy_header_of(column, attempted);
  detail::NewFile file{path, attempted};
  file.write(header);
  file.write(text_of(column.bytes()));
  file.finish();
}

}  // namespace raytrain
