// SPDX-License-Identifier: Apache-2.0
// What a tracker tells, and where it listens.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/backend/xgboost/xgboost_tracker_options.hpp>

#include "../launch/control_ends.hpp"

namespace raytrain::testing {

struct TrackerLog : Watched {
  std::vector<std::string> errors;
  std::vector<std::string> strangers;

  auto events() -> XGBoostTrackerEvents {
    return {.on_error = [this](Error const& error) { change([&] { errors.emplace_back(error.what()); }); },
            .on_stranger = [this](std::string text) { change([&] { strangers.push_back(std::move(text)); }); }};
  }

  auto wait_for_error() -> std::string {
    wait([&] { return !errors.empty(); });
    return look([&] { return errors.front(); });
  }

  auto wait_for_stranger(std::string_view part) -> std::string {
    std::string found;
    wait([&] {
      for (auto const& text : strangers) {
        if (text.find(part) != std::string::npos) found = text;
      }
      return !found.empty();
    });
    return found;
  }
};

[[nodiscard]] inline auto address_of(XGBoostWorkerArguments const& arguments) -> std::string {
  return "tcp:" + arguments.host + ':' + std::to_string(arguments.port);
}

}  // namespace raytrain::testing
