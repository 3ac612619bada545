// SPDX-License-Identifier: Apache-2.0
// A loss of one's own.
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <stdexcept>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/backend/xgboost.hpp>
#include <raytrain/data/dataset.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/thrown_error.hpp"
#include "xgboost_refused.hpp"
#include "xgboost_run.hpp"
#include "xgboost_workers.hpp"

namespace {

using namespace raytrain;
using namespace raytrain::testing;
using ConstValues = std::span<float const>;
using Values = std::span<float>;

void logistic(ConstValues margins, ConstValues labels, Values gradients, Values hessians) {
  for (std::size_t row = 0; row < margins.size(); ++row) {
    auto const probability = 1 / (1 + std::exp(-margins[row]));
    gradients[row] = probability - labels[row];
    hessians[row] = probability * (1 - probability);
  }
}

// Newer versions of XGBoost begin with the mean of the labels where they know the loss, and with this one where not.
auto from_half() -> XGBoostParams {
  auto params = parameters();
  params.params = {{"base_score", "0.5"}};
  return params;
}

auto loss_of(XGBoostParams const& params, TrainerConfig<XGBoostBackend> const& with) -> double {
  return XGBoostTrainer{params, with}.fit().metrics.number("valid-logloss").value();
}

TEST_CASE("a loss of one's own that is XGBoost's gives XGBoost's metrics, on threads and distributed") {
  auto own = from_half();
  own.custom_objective = logistic;
  for (auto const mode : {XGBoostMode::automatic, XGBoostMode::distributed}) {
    TemporaryFolder const folder;
    TemporaryFolder const other;
    CHECK(loss_of(own, config(folder, 2, mode)) ==
          doctest::Approx(loss_of(from_half(), config(other, 2, mode))).epsilon(1e-3));
  }
}

TEST_CASE("a loss of one's own that is another one gives another model") {
  auto own = from_half();
  own.custom_objective = [](ConstValues margins, ConstValues labels, Values gradients, Values hessians) {
    logistic(margins, labels, gradients, hessians);
    for (auto& gradient : gradients) gradient = gradient < 0 ? 3 * gradient : gradient;
  };
  TemporaryFolder const folder;
  TemporaryFolder const other;
  CHECK(loss_of(own, config(folder, 1)) > 1.1 * loss_of(from_half(), config(other, 1)));
}

TEST_CASE("a loss of one's own is weighted by the rows' weights") {
  auto const weighted = [](TemporaryFolder const& folder) {
    auto with = config(folder, 1);
    for (auto& [name, dataset] : with.datasets) {
      std::vector<float> weights(dataset.rows(), 1);
      for (std::size_t row = 0; row < weights.size(); row += 3) weights[row] = 5;
      std::vector<Column> columns{dataset.columns().begin(), dataset.columns().end()};
      columns.emplace_back("weight", weights);
      dataset = Dataset::from_columns(columns);
    }
    return with;
  };
  auto own = from_half();
  own.weight = "weight";
  auto const theirs = own;
  own.custom_objective = logistic;
  TemporaryFolder const folder;
  TemporaryFolder const other;
  TemporaryFolder const unweighted;
  auto const loss = loss_of(own, weighted(folder));
  CHECK(loss == doctest::Approx(loss_of(theirs, weighted(other))).epsilon(1e-3));
  CHECK(std::abs(loss - loss_of(from_half(), config(unweighted, 1))) > 1e-3 * loss);
}

TEST_CASE("a loss of one's own has a margin and two derivatives for each row and class, row by row") {
  TemporaryFolder const folder;
  auto with = config(folder, 1);
  std::vector<float> x;
  std::vector<float> target;
  for (int row = 0; row < 300; ++row) {
    x.push_back(static_cast<float>(row % 30));
    target.push_back(static_cast<float>(row % 3));
  }
  with.datasets = {{"train", Dataset::from_columns({{"x", x}, {"target", target}})}};
  XGBoostParams params{
      .label = "target",
      .objective = "multi:softmax",
      .eval_metric = {"merror"},
      .eta = 1,
      .num_class = 3,
      .custom_objective = [](ConstValues margins, ConstValues labels, Values gradients, Values hessians) {
        REQUIRE(margins.size() == 3 * labels.size());
        for (std::size_t row = 0; row < labels.size(); ++row) {
          for (std::size_t i = 0; i < 3; ++i) {
            auto const wanted = labels[row] == static_cast<float>(i) ? 1.0F : 0.0F;
            gradients[row * 3 + i] = margins[row * 3 + i] - wanted;
            hessians[row * 3 + i] = 1;
          }
        }
      }};
  CHECK(XGBoostTrainer{params, with}.fit().metrics.number("train-merror") == 0);
}

TEST_CASE("a loss of one's own whose derivatives are no numbers is refused with the first of them") {
  TemporaryFolder const folder;
  auto own = parameters();
  own.custom_objective = [](ConstValues margins, ConstValues labels, Values gradients, Values hessians) {
    logistic(margins, labels, gradients, hessians);
    hessians[2] = std::numeric_limits<float>::infinity();
  };
  check_contains(refused(own, config(folder, 2)),
                 "XGBoostParams::custom_objective: its hessian 2 is inf; keep logarithms and divisors from 0");
  own.group = "noise";
  check_contains(refused(own, config(folder, 2)),
                 "XGBoostParams::custom_objective: is not told of groups, and XGBoostParams::group is 'noise'");
}

TEST_CASE("a loss that throws in the middle of a round ends the other workers within a second, and leaves no socket") {
  using std::chrono::steady_clock;
  auto const before = open_descriptors();
  {
    TemporaryFolder const folder;
    std::atomic<int> calls = 0;
    steady_clock::time_point thrown;
    auto own = parameters();
    own.custom_objective = [&](ConstValues margins, ConstValues labels, Values gradients, Values hessians) {
      if (++calls == 10) {  // that of the first of three workers in the fourth round
        thrown = steady_clock::now();
        throw std::runtime_error{"as planned"};
      }
      logistic(margins, labels, gradients, hessians);
    };
    auto const text = refused(own, config(folder, 3, XGBoostMode::distributed));
    CHECK(steady_clock::now() - thrown < std::chrono::seconds{1});
    check_contains(text, "as planned");
    CHECK(text.find("rank ") == text.rfind("rank "));  // the others are not named
  }
  CHECK(descriptors_return_to(before));
}

TEST_CASE("derivatives that are not one of each for each row and class are refused") {
  TemporaryFolder const folder;
  XGBoostTrainer trainer{[](XGBoostContext& ctx) {
                           auto const train = ctx.dmatrix("train", {.label = "target"});
                           auto booster = ctx.booster(parameters(), {&train});
                           std::vector<float> few(2999);
                           std::vector<float> enough(3000);
                           check_contains(thrown_error([&] {
                                            booster.boost(0, train, {enough, few});
                                          }),
                                          "Booster::boost: there are 3000 gradients and 2999 hessians for 3000 rows");
                           check_contains(thrown_error([&] {
                                            booster.boost(0, train, {few, few});
                                          }),
                                          "there are 2999 gradients and 2999 hessians for 3000 rows");
                           booster.boost(0, train, {enough, enough});
                           CHECK(booster.rounds() == 1);
                         },
                         config(folder, 1)};
  trainer.fit();
}

}  // namespace
