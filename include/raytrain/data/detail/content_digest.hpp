// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <mutex>
#include <span>
#include <string>

#include <fmt/format.h>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/xxh3.hpp>
#include <raytrain/data/column.hpp>

namespace raytrain::detail {

/// How much of a column is hashed: all of it up to `pieces` times `piece_bytes`, and beyond that so many pieces, evenly
/// spaced from the first byte to the last.
struct DigestSample {
  std::size_t pieces = 4096;  ///< At least 2.
  std::size_t piece_bytes = 65536;
};

/// XXH3-128 of the columns' names, types, row shapes and values, as 32 hexadecimal digits.
[[nodiscard]] inline auto content_digest(std::span<Column const> columns, DigestSample sample = {}) -> std::string {
  Xxh3 hash;
  for (auto const& column : columns) {
    hash.update(bytes_of(fmt::format("{} {}\n", column.describe(), column.rows())));
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

/// The digest of columns that never change, computed once.
///
/// Threads: any; who asks for it while it is computed waits for it.
class DigestCache {
 public:
  [[nodiscard]] auto get(std::span<Column const> columns) const -> std::string const& {
    std::call_once(once_, [&] { digest_ = content_digest(columns); });
    return digest_;
  }

 private:
  mutable std::once_flag once_;
  mutable std::string digest_;
};

}  // namespace raytrain::detail
