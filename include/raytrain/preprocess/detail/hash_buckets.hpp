// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/xxh3.hpp>

namespace raytrain::detail {

/// XXH3-64 of the text, seed 0, modulo the number of buckets: the same everywhere. In Python:
/// `xxhash.xxh3_64_intdigest(text) % num_features`.
[[nodiscard]] inline auto hash_bucket(std::string_view text, std::size_t num_features) noexcept -> std::size_t {
  return xxh3_64_of(bytes_of(text)) % num_features;
}

/// Errors: `invalid_config` for less than 1 or more than 1,048,576 buckets.
void check_num_features(std::size_t num_features, std::string_view type_name);

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/detail/hash_buckets-inl.hpp>
#endif
