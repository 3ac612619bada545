// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <raytrain/core/error.hpp>

namespace raytrain::detail {

enum class LabelKind : std::uint8_t {
  number,
  binary,  ///< 0 or 1.
  classes  ///< 0 to the number of classes - 1.
};

/// What a training expects of its labels.
struct LabelRule {
  LabelKind kind;
  int num_class;
  std::string_view params;  ///< Name of the struct that has `num_class`.
  std::string objective;
  std::string column;
};

/// Errors: `invalid_data` for the first label that the objective cannot have.
inline void check_labels(std::span<float const> labels, LabelRule const& rule) {
  auto const refuse = [&](auto found, std::string_view wanted) {
    throw Error{Errc::invalid_data, fmt::format("training with the objective {}", rule.objective),
                fmt::format("row {} of the label column '{}' is {}, and must be {}", found - labels.begin(),
                            rule.column, *found, wanted),
                "choose another objective, or another label column"};
  };
  if (rule.kind == LabelKind::binary) {
    auto const bad = std::ranges::find_if(labels, [](float label) { return label != 0 && label != 1; });
    if (bad != labels.end()) refuse(bad, "0 or 1");
  } else if (rule.kind == LabelKind::classes) {
    auto const classes = static_cast<float>(rule.num_class);
    auto const bad = std::ranges::find_if(
        labels, [&](float label) { return !(label >= 0 && label < classes) || label != std::floor(label); });
    if (bad != labels.end())
      refuse(bad, fmt::format("a class from 0 to {} ({}::num_class - 1)", rule.num_class - 1, rule.params));
  }
}

}  // namespace raytrain::detail
