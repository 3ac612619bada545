// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/file_descriptor.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/mapped_file.hpp>
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

/// Whether the rows are not where a column has them, in a file of one dimension alone or of C's order.
[[nodiscard]] RAYTRAIN_INLINE auto is_foreign_order(NpyHeader const& header) -> bool {
  auto const has_two = std::ranges::count_if(header.extents, [](auto extent) { return extent > 1; }) > 1;
  return header.is_fortran_order && has_two && header.extents.front() > 0;
}

[[nodiscard]] RAYTRAIN_INLINE auto is_foreign_endian(NpyHeader const& header) -> bool {
  return header.is_big_endian != (std::endian::native == std::endian::big) && size_bytes(header.type) > 1;
}

[[nodiscard]] RAYTRAIN_INLINE auto npy_column(std::string const& name, NpyHeader const& header,
                                              std::shared_ptr<std::byte const> first) -> Dataset {
  ColumnFormat format{name, header.type, RowShape(header.extents.begin() + 1, header.extents.end())};
  format.is_boolean = header.is_boolean;
  return Dataset::from_columns({Column{std::move(format), std::move(first), header.extents.front()}});
}

[[nodiscard]] RAYTRAIN_INLINE auto read_npy_file(std::filesystem::path const& path, NpyOptions const& options)
    -> Dataset {
  auto const attempted = fmt::format("read NumPy file '{}'", path.string());
  DataFile file{path};
  file.limit_unpacking(options.max_unpack_ratio, "NpyOptions::max_unpack_ratio");
  auto const header = read_npy_header(file, attempted);
  auto data = read_body(file, {attempted, header.describe(), header.header_bytes, header.data_bytes});
  if (is_foreign_endian(header)) {
    swap_bytes(std::span{data.get(), static_cast<std::size_t>(header.data_bytes)}, header.type);
  }
  if (header.is_boolean) {  // NumPy takes any byte but 0 for True
    for (auto& value : std::span{data.get(), static_cast<std::size_t>(header.data_bytes)}) {
      value = value == std::byte{0} ? std::byte{0} : std::byte{1};
    }
  }
  if (is_foreign_order(header)) data = in_c_order(data, header);
  return npy_column(options.column, header, {data, data.get()});
}

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_INLINE auto read_npy(DataPaths const& paths, NpyOptions const& options) -> Dataset {
  return detail::read_each(paths, [&](auto const& path, int) { return detail::read_npy_file(path, options); });
}

RAYTRAIN_INLINE auto map_npy(std::filesystem::path const& path, NpyOptions const& options) -> Dataset {
  auto const attempted = fmt::format("map NumPy file '{}'", path.string());
  detail::DataFile file{path};
  auto const header = detail::read_npy_header(file, attempted);
  auto const refuse = [&](std::string happened) {
    return Error{Errc::invalid_data, attempted, std::move(happened), "read it by read_npy, or save it anew"};
  };
  if (file.is_compressed()) throw refuse("it is compressed");
  if (detail::is_foreign_endian(header)) throw refuse("its values are of another byte order");
  if (detail::is_foreign_order(header)) throw refuse("it is in Fortran's order");
  if (header.header_bytes % size_bytes(header.type) != 0) {
    throw refuse(fmt::format("its values begin at byte {}, where they are not aligned", header.header_bytes));
  }
  detail::check_held(file, {attempted, header.describe(), header.header_bytes, header.data_bytes}, file.disk_bytes());
  FileDescriptor const mapped{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  auto const problem = [&](int code) {
    return Error{Errc::io, attempted, std::generic_category().message(code), "read it by read_npy"};
  };
  if (!mapped.is_open()) throw problem(errno);
  struct ::stat status {};  // of what is mapped, which may be another file by now
  if (::fstat(mapped.get(), &status) != 0) throw problem(errno);
  if (static_cast<std::uint64_t>(status.st_size) != file.disk_bytes()) throw refuse("it has just been replaced");
  auto const bytes = detail::map_file(mapped, static_cast<std::size_t>(file.disk_bytes()));
  if (!bytes) throw problem(errno);
  auto const owner = std::make_shared<SharedBytes const>(*bytes);
  return detail::npy_column(options.column, header, {owner, owner->view().data() + header.header_bytes});
}

RAYTRAIN_INLINE void write_npy(Column const& column, std::filesystem::path const& path) {
  auto const attempted = fmt::format("write NumPy file '{}'", path.string());
  column.check_holds_numbers(attempted);
  column.check_booleans(attempted);
  auto const header = detail::npy_header_of(column.format(), column.rows(), attempted);
  detail::NewFile file{path, attempted};
  file.write(header);
  file.write(text_of(column.bytes()));
  file.finish();
}

}  // namespace raytrain
