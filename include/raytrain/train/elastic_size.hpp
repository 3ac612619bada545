// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/identifiers.hpp>

namespace raytrain {

/// How many workers the next attempt of a run has: as many as are wanted, where there is room for them.
class ElasticSize {
 public:
  /// `first`: as many as it begins with, and always has where the range is no range.
  ElasticSize(WorldSize first, WorkerRange range, WorldSize room) : first_{first}, range_{range}, room_{room} {}

  [[nodiscard]] auto is_elastic() const noexcept -> bool { return range_.is_elastic(); }

  /// Whether there is not even room for the fewest, which `next` gives all the same.
  [[nodiscard]] auto is_short_of_room() const noexcept -> bool { return room_ < range_.fewest; }

  [[nodiscard]] auto next() const noexcept -> WorldSize {
    return is_elastic() ? std::max(range_.fewest, std::min(range_.wanted, room_)) : first_;
  }

  /// From now on so many are wanted, or the nearest number in the range.
  void want(std::int64_t workers) noexcept {
    auto const within = std::clamp(workers, std::int64_t{range_.fewest.value}, std::int64_t{range_.most.value});
    range_.wanted.value = static_cast<std::uint32_t>(within);
  }

  void set_room(WorldSize room) noexcept { room_ = room; }

 private:
  WorldSize first_;
  WorkerRange range_;
  WorldSize room_;
};

}  // namespace raytrain
