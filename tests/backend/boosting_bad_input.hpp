// SPDX-License-Identifier: Apache-2.0
// What users get wrong with a backend that boosts trees, and what they are told. A test program names its libraries, as
// boosting_conformance.hpp wants them:
//   TEST_CASE_TEMPLATE_INVOKE(boosting_bad_input, XGBoostLibrary);
#pragma once

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/trainer.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/thrown_error.hpp"
#include "boosting_conformance.hpp"
#include "boosting_samples.hpp"

namespace raytrain::testing {

TEST_CASE_TEMPLATE_DEFINE("a backend that boosts trees, wrongly used", Library, boosting_bad_input) {
  using Runs = BoostingRuns<Library>;
  auto const params = Library::parameters(Runs::rounds);
  TemporaryFolder const folder;

  SUBCASE("refuses parameters that cannot be") {
    std::string const name = Library::params_name;
    auto const with = Runs::config(folder, 2);
    auto tried = params;
    Library::rounds(tried) = 0;
    CHECK(Runs::refused(tried, with) ==
          "invalid_config: " + name + "::" + Library::rounds_name + ": must be at least 1 (got 0); write a larger one");
    for (auto const& [rate, text] : {std::pair{0.0, "0"}, std::pair{std::nan(""), "nan"},
                                     std::pair{std::numeric_limits<double>::infinity(), "inf"}}) {
      tried = params;
      Library::rate(tried) = rate;
      check_contains(Runs::refused(tried, with), "invalid_config: " + name + "::" + Library::rate_name +
                                                     ": must be a finite number above 0 (got " + text + "); write 0.");
    }
    tried = params;
    tried.params = {{"max_dpeth", "3"}};
    check_contains(Runs::refused(tried, with), name + "::params: ");
    check_contains(Runs::refused(tried, with), "max_dpeth");
    tried.params = {{"max_depth", "3"}};
    check_contains(Runs::refused(tried, with), name + "::params: holds 'max_depth', which is a field of its own");
    tried.params = {{"seed", "3"}};
    check_contains(Runs::refused(tried, with), name + "::params: holds 'seed', which is the run's; write RunConfig::");
    tried = params;
    Library::name_no_metric(tried);
    CHECK(Runs::fit(tried, Runs::config(TemporaryFolder{}, 1)).state == RunState::finished);
    tried.early_stopping_rounds = 5;
    check_contains(Runs::refused(tried, with), name +
                                                   "::early_stopping_rounds: is 5, and there is no metric to stop "
                                                   "by; name a metric, or write 0");
    tried = params;
    tried.objective = "binray";
    check_contains(Runs::refused(tried, with), "binray");
    tried = params;
    tried.label = "targte";
    check_contains(Runs::refused(tried, with),
                   "column 'targte': is not in the dataset, which has x (float32, 3), noise (int32, scalar), target");
  }

  SUBCASE("refuses data that cannot be, with row and column") {
    auto with = Runs::config(folder, 2);
    auto const train_on = [&](std::vector<float> const& labels) {
      with.datasets = {
          {"train", Dataset::from_columns({{"x", std::vector<float>(labels.size())}, {"target", labels}})}};
    };
    train_on({0, 1, 0.5F, 1});
    check_contains(Runs::refused(params, with),
                   "row 2 of the label column 'target' in dataset 'train' is 0.5, and must be 0 or 1");
    train_on({0, 1, 1, std::nanf("")});
    check_contains(Runs::refused(params, with), "row 3 of the label column 'target' is nan");
    train_on({0});
    check_contains(Runs::refused(params, with), "1 rows");
    auto const evaluate_on = [&](std::vector<float> const& labels) {
      train_on({0, 1, 0, 1});
      with.datasets.emplace("valid", Dataset::from_columns({{"x", std::vector<float>(4)}, {"target", labels}}));
    };
    evaluate_on({0, 1, 2, 1});
    check_contains(Runs::refused(params, with),
                   "row 2 of the label column 'target' in dataset 'valid' is 2, and must be 0 or 1");
    auto classes = params;
    Library::several_classes(classes);
    train_on({0, 1, 3, 1});
    check_contains(Runs::refused(classes, with),
                   "row 2 of the label column 'target' in dataset 'train' is 3, and must be a class from 0 to 2");
    evaluate_on({0, 1, 2, -1});
    check_contains(Runs::refused(classes, with),
                   "row 3 of the label column 'target' in dataset 'valid' is -1, and must be a class from 0 to 2");
    with.datasets.clear();
    check_contains(Runs::refused(params, with), "dataset 'train': is not among the run's datasets");
  }

  SUBCASE("refuses to evaluate columns in another order than those that it trains on") {
    auto with = Runs::config(folder, 2);
    auto& valid = with.datasets.at("valid");
    valid = valid.select_columns({"noise", "x", "target"});
    auto const refused = Runs::refused(params, with);
    check_contains(refused, "its feature 0 is ");
    check_contains(refused, "'noise'");
    check_contains(refused, "'x_0'");
  }

  SUBCASE("refuses a checkpoint of another objective, with both") {
    auto const with = Runs::config(folder, 1);
    auto const result = Runs::fit(Library::parameters(3), with);
    auto other = params;
    Library::other_objective(other);
    check_contains(Runs::refused(other, with), std::string{Library::params_name} + "::objective: is '" +
                                                   other.objective + "', and the checkpoint's model was trained for '" +
                                                   params.objective +
                                                   "'; choose another RunConfig::name, or start anew by "
                                                   "RunConfig::resume = Resume::fresh");
    TemporaryFolder const own;
    auto from_other = Runs::config(own, 1);
    from_other.run.resume_from_checkpoint = result.checkpoint().value();
    check_contains(Runs::refused(other, from_other),
                   "'; set it as the model has it, or name another one by RunConfig::resume_from_checkpoint");
  }
}

}  // namespace raytrain::testing
