// SPDX-License-Identifier: Apache-2.0
// What must hold for any text at all that is read as the name of a slice's file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <raytrain/checkpoint/detail/slice_files.hpp>
#include <raytrain/core/bytes.hpp>

#include "properties.hpp"

namespace raytrain::testing {

/// True if it is one.
inline auto check_slice_name(std::string_view name) -> bool {
  auto const in_folder = detail::slice_files({{"rank_0007/" + std::string{name}, 0, {}}});
  auto const slice = detail::parse_slice_file_name(name);
  require(slice.has_value() == (in_folder.size() == 1), "a slice's file is one in a rank's folder");
  if (!slice) return false;
  require(slice->begin < slice->end && slice->end <= slice->total, "a slice has elements, which lie in its array");
  require(detail::slice_file_name(*slice) == name, "a name says nothing else than the slice");
  auto const& slices = in_folder.at(slice->array);
  require(slices.size() == 1 && slices[0].rank == Rank{7}, "a slice is the one of its rank");
  auto const is_whole = slice->begin == 0 && slice->end == slice->total;
  require(detail::array_problem(slices).has_value() != is_whole, "a slice is whole or leaves elements out");
  return true;
}

[[nodiscard]] inline auto slice_name_seeds() -> std::vector<Bytes> {
  std::vector<Bytes> seeds;
  for (std::string_view const name :
       {"density.slice-0-4-of-10.float32.safetensors", "a/b.slice-3-9-of-9.bfloat16.safetensors",
        "x.slice-0-1-of-1.slice-5-6-of-18446744073709551.uint8.safetensors"}) {
    auto const bytes = bytes_of(name);
    seeds.emplace_back(bytes.begin(), bytes.end());
  }
  return seeds;
}

}  // namespace raytrain::testing
