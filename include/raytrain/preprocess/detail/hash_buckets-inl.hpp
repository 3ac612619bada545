// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string_view>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/preprocess/detail/hash_buckets.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE void check_num_features(std::size_t num_features, std::string_view type_name) {
  constexpr auto most = std::size_t{1} << 20U;
  if (num_features >= 1 && num_features <= most) return;
  throw Error{Errc::invalid_config, fmt::format("{}::num_features", type_name),
              fmt::format("must be from 1 to {} (got {})", most, num_features),
              "write .num_features = 256: a row takes 4 bytes for each"};
}

}  // namespace raytrain::detail
