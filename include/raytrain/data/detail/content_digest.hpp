// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <mutex>
#include <span>
#include <string>

#include <raytrain/data/column.hpp>

namespace raytrain::detail {

/// How much of a column is hashed: all of it up to `pieces` times `piece_bytes`, and beyond that so many pieces, evenly
/// spaced from the first byte to the last.
struct DigestSample {
  std::size_t pieces = 4096;  ///< At least 2.
  std::size_t piece_bytes = 65536;
};

/// XXH3-128 of the columns' names, types, row shapes and values, as 32 hexadecimal digits. Booleans have that of their
/// numbers.
[[nodiscard]] auto content_digest(std::span<Column const> columns, DigestSample sample = {}) -> std::string;

/// The digest of columns that never change, computed once.
///
/// Threads: any; who asks for it while it is computed waits for it.
class DigestCache {
 public:
  [[nodiscard]] auto get(std::span<Column const> columns) const -> std::string const&;

 private:
  mutable std::once_flag once_;
  mutable std::string digest_;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/detail/content_digest-inl.hpp>
#endif
