// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/message/report_fields.hpp>
#include <raytrain/message/report_line.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE void check_field_names(std::vector<std::string> const& names) {
  for (auto name = names.begin(); name != names.end(); ++name) {
    if (name->empty()) throw Error{Errc::invalid_report, "a report's field", "has an empty name", "give it one"};
    if (std::ranges::count(automatic_names, *name) != 0) {
      throw Error{Errc::invalid_report, "report field '" + *name + "'",
                  "has the name of a metric that every report gains", "rename it"};
    }
    if (std::find(names.begin(), name, *name) != name) {
      throw Error{Errc::invalid_report, "report field '" + *name + "'", "is there twice", "rename one of them"};
    }
  }
}

}  // namespace raytrain::detail
