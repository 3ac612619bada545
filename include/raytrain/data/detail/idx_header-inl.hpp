// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/detail/data_file.hpp>
#include <raytrain/data/detail/idx_header.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto IdxHeader::describe() const -> std::string {
  return fmt::format("{} of {}", fmt::join(extents, " x "), to_string(type));
}

RAYTRAIN_INLINE auto big_endian_32(std::byte const* at) noexcept -> std::uint32_t {
  auto const byte = [at](int i) { return std::to_integer<std::uint32_t>(at[i]); };
  return byte(0) << 24U | byte(1) << 16U | byte(2) << 8U | byte(3);
}

RAYTRAIN_INLINE auto read_idx_header(DataFile& file) -> IdxHeader {
  auto const refuse = [&](std::string happened) {
    return Error{Errc::invalid_data, fmt::format("read IDX file '{}'", file.path().string()), std::move(happened),
                 "an IDX file begins with two zero bytes, an element type from 0x08 to 0x0e, the number of dimensions "
                 "and four bytes for each"};
  };
  std::array<std::byte, 4> magic{};
  if (auto const got = file.read(magic); got < magic.size()) throw refuse(fmt::format("it holds only {} bytes", got));
  auto const type = idx_element_type(magic[2]);
  auto const dimensions = std::to_integer<std::size_t>(magic[3]);
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0} || !type || dimensions == 0) {
    throw refuse(fmt::format("it begins with 0x{:08x}", big_endian_32(magic.data())));
  }
  IdxHeader header{*type, {}, magic.size() + 4 * dimensions, size_bytes(*type)};
  for (std::size_t i = 0; i < dimensions; ++i) {
    std::array<std::byte, 4> extent{};
    if (file.read(extent) < extent.size()) throw refuse(fmt::format("it ends within its {} dimensions", dimensions));
    header.extents.push_back(big_endian_32(extent.data()));
    auto const count = header.extents.back();
    if (i > 0 && count == 0) throw refuse(fmt::format("its dimension {} is 0, so its rows are empty", i));
    if (count != 0 && header.data_bytes > std::numeric_limits<std::uint64_t>::max() / 2 / count) {
      throw refuse(fmt::format("it promises {} ..., more than any file holds", header.describe()));
    }
    header.data_bytes *= count;
  }
  return header;
}

}  // namespace raytrain::detail
