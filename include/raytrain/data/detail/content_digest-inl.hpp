// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <mutex>
#include <span>
#include <string>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/xxh3.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/detail/content_digest.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto content_digest(std::span<Column const> columns, DigestSample sample) -> std::string {
  Xxh3 hash;
  for (auto const& column : columns) {
    // A training sees the same numbers, so that a run goes on with booleans that it began with as uint8.
    auto const numbers = column.booleans_as_numbers();
    hash.update(bytes_of(fmt::format("{} {}\n", numbers.describe(), column.rows())));
    if (column.is_text()) {
      for (auto const& text : column.categories()) hash.update(bytes_of(fmt::format("{} {}\n", text.size(), text)));
    }
    auto const bytes = column.bytes();
    if (bytes.size() <= sample.pieces * sample.piece_bytes) {
      hash.update(bytes);
      continue;
    }
    auto const last = bytes.size() - sample.piece_bytes;
    for (std::size_t piece = 0; piece < sample.pieces; ++piece) {
      hash.update(bytes.subspan(last * piece / (sample.pieces - 1), sample.piece_bytes));
    }
  }
  return hash.hex();
}

RAYTRAIN_INLINE auto DigestCache::get(std::span<Column const> columns) const -> std::string const& {
  std::call_once(once_, [&] { digest_ = content_digest(columns); });
  return digest_;
}

}  // namespace raytrain::detail
