// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstring>
#include <span>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/batch.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/detail/gather_rows.hpp>

namespace raytrain {

RAYTRAIN_INLINE void Batch::gather(Column const& column, std::span<std::byte> out) const {
  auto const row_bytes = column.row_bytes();
  if (out.size() != size_ * row_bytes) {
    throw Error{Errc::invalid_call, fmt::format("gather column '{}'", column.name()),
                fmt::format("{} rows of {} bytes are {} bytes, the buffer has {}", size_, row_bytes, size_ * row_bytes,
                            out.size()),
                "size it by Batch::size(): the last batch of an epoch may be smaller"};
  }
  if (rows_ == nullptr) {
    std::memcpy(out.data(), column.bytes().data() + first_ * row_bytes, out.size());
  } else {
    detail::gather_rows(column, {rows_.get(), size_}, out.data());
  }
}

}  // namespace raytrain
