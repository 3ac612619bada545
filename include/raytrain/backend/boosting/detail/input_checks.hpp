// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/error.hpp>

namespace raytrain::detail {

/// Errors: `invalid_config` where there are such: what a booster adds up is in the order of its own workers.
inline void refuse_virtual_shards(ScalingConfig const& scaling, std::string_view backend) {
  if (scaling.virtual_shards == 0) return;
  throw Error{Errc::invalid_config, "ScalingConfig::virtual_shards",
              fmt::format("is {}, and the backend '{}' has none: its library adds up what its own workers send",
                          scaling.virtual_shards, backend),
              "leave it out"};
}

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

/// Errors: `invalid_data` for the first label of a dataset that the objective cannot have.
inline void check_labels(std::span<float const> labels, LabelRule const& rule, std::string_view dataset) {
  auto const refuse = [&](auto found, std::string_view wanted) {
    throw Error{Errc::invalid_data, fmt::format("training with the objective {}", rule.objective),
                fmt::format("row {} of the label column '{}' in dataset '{}' is {}, and must be {}",
                            found - labels.begin(), rule.column, dataset, *found, wanted),
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

/// Looks at the parameters of a ready-made training.
///
/// Errors: every function: `invalid_config`, naming the field, its value and what to write instead.
class ParamChecks {
 public:
  using Texts = std::map<std::string, std::string>;

  /// `params`: name of their struct.
  explicit ParamChecks(std::string params) : params_{std::move(params)} {}

  [[noreturn]] void refuse(std::string_view field, std::string happened, std::string remedy) const {
    throw Error{Errc::invalid_config, fmt::format("{}::{}", params_, field), std::move(happened), std::move(remedy)};
  }

  void not_empty(std::string_view field, std::string_view value, std::string remedy) const {
    if (value.empty()) refuse(field, "must not be empty", std::move(remedy));
  }

  void at_least(std::string_view field, auto value, int least) const {
    if (!(value >= least))
      refuse(field, fmt::format("must be at least {} (got {})", least, value), "write a larger one");
  }

  /// Checks a share of the rows or features.
  void share(std::string_view field, double value) const {
    if (!(value > 0 && value <= 1))
      refuse(field, fmt::format("must be above 0, and 1 at most (got {})", value), "write 1 for all");
  }

  /// `usual`: a rate to write instead.
  void learning_rate(std::string_view field, double value, double usual) const {
    if (!(value > 0) || std::isinf(value))
      refuse(field, fmt::format("must be a finite number above 0 (got {})", value), fmt::format("write {}", usual));
  }

  /// Checks parameters that are given by name: those in `own` are fields, and those in `of_run` follow from the run.
  void named(Texts const& given, Texts const& own, auto const& of_run) const {
    for (auto const& [name, value] : given) {
      if (own.contains(name))
        refuse("params", fmt::format("holds '{}', which is a field of its own", name), "write the field");
      for (std::string_view const taken : of_run) {
        if (name != taken) continue;
        refuse("params", fmt::format("holds '{}', which is the run's", name),
               "write RunConfig::seed, and in ScalingConfig num_workers and resources_per_worker");
      }
    }
  }

 private:
  std::string params_;
};

}  // namespace raytrain::detail
