// SPDX-License-Identifier: Apache-2.0
#include <raytrain/backend/boosting/detail/early_stopping.hpp>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "../support/thrown_error.hpp"

namespace {

using raytrain::Evaluation;
using raytrain::detail::EarlyStoppingRounds;
using raytrain::detail::is_better_when_larger;
using raytrain::detail::predicted_rounds;
using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;

// What early stopping wants of a model.
struct Attributes {
  std::map<std::string, std::string> texts;
  [[nodiscard]] auto attribute(std::string const& name) const -> std::string {
    return texts.contains(name) ? texts.at(name) : "";
  }
  void set_attribute(std::string const& name, std::string const& value) { texts[name] = value; }
};

// The round that is the last one; -1 when there is none among these.
auto last_round(std::vector<double> const& values, int backoff, Attributes& model) -> int {
  EarlyStoppingRounds stopping{backoff};
  stopping.restore(model);
  for (int round = 0; round < static_cast<int>(values.size()); ++round) {
    if (stopping.ends(round, {"valid-auc", values[static_cast<std::size_t>(round)]}, model)) return round;
  }
  return -1;
}

}  // namespace

TEST_CASE("a model whose best round or score is no number is refused, wherever it came from") {
  Attributes model{{{"best_iteration", "3x"}, {"best_score", "0.5"}}};
  CHECK(thrown_error([&] { EarlyStoppingRounds{2}.restore(model); }) ==
        "invalid_data: reading the model's attribute 'best_iteration': it is '3x', which is no number; use a model as "
        "XGBoost or LightGBM has written it");
  check_contains(thrown_error([&] { (void)predicted_rounds(model, raytrain::PredictedRounds::best); }), "it is '3x'");
  model.texts["best_score"] = "";
  model.texts["best_iteration"] = "99999999999";
  check_contains(thrown_error([&] { (void)predicted_rounds(model, raytrain::PredictedRounds::best); }), "99999999999");
  model.texts["best_score"] = "high";
  check_contains(thrown_error([&] { EarlyStoppingRounds{2}.restore(model); }), "'best_score': it is 'high'");
}

TEST_CASE("metrics that grow are told from errors, however XGBoost and LightGBM write them") {
  for (auto const* const name : {"valid-auc", "a-b-aucpr", "valid-ndcg", "valid-ndcg@5", "valid-ndcg-", "valid-ndcg@5-",
                                 "valid-map@3-", "valid-pre@2", "valid-average_precision", "valid-auc_mu", "valid-r2",
                                 "valid-ams@0.15", "valid-interval-regression-accuracy"}) {
    CAPTURE(name);
    CHECK(is_better_when_larger(name));
  }
  for (auto const* const name : {"valid-rmse", "auc-error@0.7", "auc-logloss", "valid-mape", "valid-gamma-deviance",
                                 "valid-poisson-nloglik", "map-merror", "valid-binary_logloss"}) {
    CAPTURE(name);
    CHECK_FALSE(is_better_when_larger(name));
  }
}

TEST_CASE("a NaN is never the best value, so that one in the first round does not end a training that learns") {
  auto const nan = std::nan("");
  Attributes model;
  CHECK(last_round({nan, 0.5, 0.6, 0.7, 0.8, 0.9}, 2, model) == -1);
  CHECK(model.attribute("best_iteration") == "5");
  Attributes other;
  CHECK(last_round({nan, 0.5, nan, nan, 0.9}, 2, other) == 3);
  CHECK(other.attribute("best_iteration") == "1");
  Attributes never;
  CHECK(last_round({nan, nan, nan, nan, nan}, 2, never) == -1);
  CHECK(never.attribute("best_iteration").empty());
}

TEST_CASE("a NaN that an earlier version kept as the best value is forgotten") {
  Attributes model{{{"best_iteration", "0"}, {"best_score", "nan"}}};
  CHECK(last_round({0.5, 0.6, 0.7, 0.8}, 2, model) == -1);
  CHECK(model.attribute("best_iteration") == "3");
}

TEST_CASE("the best value of another metric, or on another dataset, does not count") {
  Attributes model;
  EarlyStoppingRounds first{2};
  CHECK_FALSE(first.ends(0, {"train-rmse", 0.1}, model));
  CHECK_FALSE(first.ends(1, {"train-rmse", 0.2}, model));
  auto const before = model;

  EarlyStoppingRounds same{2};
  same.restore(model);
  CHECK(same.ends(2, {"train-rmse", 0.2}, model));

  EarlyStoppingRounds other{2};
  other.restore(model);
  CHECK_FALSE(other.ends(2, {"train-mape", 9}, model));
  CHECK(model.attribute("best_iteration") == "2");
  CHECK_FALSE(other.ends(3, {"train-mape", 9}, model));
  CHECK(other.ends(4, {"train-mape", 9}, model));

  model = before;
  EarlyStoppingRounds without_number{2};
  without_number.restore(model);
  CHECK_FALSE(without_number.ends(2, {"valid-rmse", std::nan("")}, model));
  CHECK(model.attribute("best_iteration").empty());
  CHECK(model.attribute("best_score").empty());
}

TEST_CASE("a model that does not tell of which metric its best value is goes on with it") {
  Attributes model{{{"best_iteration", "0"}, {"best_score", "0.1"}}};
  EarlyStoppingRounds stopping{2};
  stopping.restore(model);
  CHECK_FALSE(stopping.ends(1, {"train-rmse", 0.2}, model));
  CHECK(stopping.ends(2, {"train-rmse", 0.2}, model));
}
