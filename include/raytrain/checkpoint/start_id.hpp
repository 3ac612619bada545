// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace raytrain {

/// One start of a run, the same on all its ranks.
struct StartId {
  StartId(std::uint64_t start)  // NOLINT(google-explicit-constructor): a number will do where no folder is moved
      : number{start} {}
  StartId(std::uint64_t start, std::string start_id) : number{start}, id{std::move(start_id)} {}

  std::uint64_t number;  ///< From 1.
  /// Eight hexadecimal digits of this start alone: another one with the same number may train in a folder that has
  /// taken the place of its own.
  std::string id{};
};

}  // namespace raytrain
