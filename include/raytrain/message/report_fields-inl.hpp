// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/utf8.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/message/report_fields.hpp>
#include <raytrain/message/report_line.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE void check_field_names(std::vector<std::string> const& names) {
  constexpr auto most = max_metrics - automatic_names.size();
  if (names.size() > most) {
    throw Error{
        Errc::invalid_report, "a report",
        fmt::format("has {} fields, and {} are the most beside those that every report gains", names.size(), most),
        "report fewer, or write others into a file of a checkpoint"};
  }
  std::unordered_set<std::string_view> before;
  before.reserve(names.size());
  for (auto const& name : names) {
    if (!is_utf8(name)) {
      throw Error{Errc::invalid_report, "report field '" + to_utf8(name) + "'", "has a name that is not UTF-8",
                  "rename it"};
    }
    if (name.empty()) throw Error{Errc::invalid_report, "a report's field", "has an empty name", "give it one"};
    if (std::ranges::count(automatic_names, name) != 0) {
      throw Error{Errc::invalid_report, "report field '" + name + "'",
                  "has the name of a metric that every report gains", "rename it"};
    }
    if (!before.insert(name).second) {
      throw Error{Errc::invalid_report, "report field '" + name + "'", "is there twice", "rename one of them"};
    }
  }
}

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_INLINE auto to_metrics(Metrics const& metrics) -> Metrics { return metrics; }

}  // namespace raytrain
