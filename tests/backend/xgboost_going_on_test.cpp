// SPDX-License-Identifier: Apache-2.0
// From which models a training goes on, and from which it does not.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/backend/xgboost.hpp>
#include <raytrain/backend/xgboost/csr_rows.hpp>
#include <raytrain/backend/xgboost/xgboost_predictor.hpp>
#include <raytrain/data/dataset.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/thrown_error.hpp"
#include "xgboost_refused.hpp"
#include "xgboost_run.hpp"

namespace {

using namespace raytrain;
using namespace raytrain::testing;

constexpr auto own_checkpoint = "; choose another RunConfig::name, or start anew by RunConfig::resume = Resume::fresh";
constexpr auto other_run = "; set it as the model has it, or name another one by RunConfig::resume_from_checkpoint";
constexpr auto model_file = "; set it as the model has it, or name another one by XGBoostParams::initial_model";

// A model of two rounds, in the three ways in which a training goes on from one.
class StoredModel {
 public:
  explicit StoredModel(XGBoostParams const& params, Dataset const& data = sample(300, 1)) {
    auto with = config(folder_, 1);
    with.datasets = {{"train", data}};
    checkpoint_ = XGBoostTrainer{params, with}.fit().checkpoint();
    XGBoostPredictor{*checkpoint_}.save_model(file_);
  }

  // What is said when a training goes on, after what its model says of where it came from.
  void check_refused(XGBoostParams params, Dataset const& data, std::string const& text, bool with_sources = true) {
    params.num_boost_round = 4;
    auto with = config(folder_, 1);
    with.datasets = {{"train", data}};
    check_contains(refused(params, with), text + (with_sources ? own_checkpoint : ""));
    TemporaryFolder const other;
    with.run.storage_path = other.path();
    with.run.resume_from_checkpoint = *checkpoint_;
    check_contains(refused(params, with), text + (with_sources ? other_run : ""));
    with.run.resume_from_checkpoint = {};
    params.initial_model = file_;
    check_contains(refused(params, with), text + (with_sources ? model_file : ""));
  }

 private:
  TemporaryFolder folder_;
  std::filesystem::path file_ = folder_.path() / "model.json";
  std::optional<Checkpoint> checkpoint_;
};

auto two_columns(bool turned) -> Dataset {
  std::vector<float> a(100);
  std::vector<float> b(100);
  std::vector<float> target(100);
  for (std::size_t row = 0; row < 100; ++row) {
    a[row] = static_cast<float>(row % 10);
    b[row] = static_cast<float>(row % 7);
    target[row] = 2 * a[row] + b[row];
  }
  if (turned) return Dataset::from_columns({{"b", b}, {"a", a}, {"target", target}});
  return Dataset::from_columns({{"a", a}, {"b", b}, {"target", target}});
}

auto regression() -> XGBoostParams { return {.label = "target", .num_boost_round = 2}; }

TEST_CASE("a training does not go on with columns in another order, with fewer or with more") {
  StoredModel stored{regression(), two_columns(false)};
  stored.check_refused(regression(), two_columns(true),
                       "going on from a model of XGBoost: its feature 0 is 'a', and that of the data "
                       "'b'; give the columns of the training, in their order",
                       false);
  auto const all = two_columns(false);
  auto const fewer = Dataset::from_columns({all.column("a"), all.column("target")});
  stored.check_refused(regression(), fewer, "it has 2 features, and the data 1; give the columns", false);
  auto const more =
      Dataset::from_columns({all.column("a"), all.column("b"), all.column("b").named("c"), all.column("target")});
  stored.check_refused(
      regression(), more,
      "it has 2 features, and the data 3; give the columns of the training, in their order, or name them "
      "by DMatrixOptions::features, and a label by DMatrixOptions::label",
      false);
}

TEST_CASE("a training does not go on with another number of classes") {
  XGBoostParams classes{.label = "target", .objective = "multi:softprob", .num_class = 3, .num_boost_round = 2};
  StoredModel stored{classes};
  classes.num_class = 4;
  stored.check_refused(classes, sample(300, 1), "XGBoostParams::num_class: is 4, and the model to go on from has 3");

  // A checkpoint says for which objective its model was trained, and a file does not.
  TemporaryFolder const folder;
  auto with = config(folder, 1);
  with.datasets = {{"train", sample(300, 1)}};
  auto const path = folder.path() / "model.json";
  XGBoostPredictor{XGBoostTrainer{regression(), with}.fit().checkpoint().value()}.save_model(path);
  TemporaryFolder const other;
  with.run.storage_path = other.path();
  classes.initial_model = path;
  check_contains(refused(classes, with),
                 std::string{"XGBoostParams::num_class: is 4, and the model to go on from has 1"} + model_file);
}

TEST_CASE("a training does not go on with another kind of booster") {
  auto params = regression();
  StoredModel stored{params};
  for (auto const* const kind : {"dart", "gblinear"}) {
    params.params = {{"booster", kind}};
    stored.check_refused(params, sample(300, 1),
                         std::string{"XGBoostParams::params: 'booster' is '"} + kind +
                             "', and that of the model to go on from is 'gbtree'");
  }
}

TEST_CASE("a model goes on as the kind of booster that it is, named or not") {
  for (auto const* const kind : {"gbtree", "dart", "gblinear"}) {
    CAPTURE(kind);
    TemporaryFolder const folder;
    auto params = regression();
    params.params = {{"booster", kind}};
    if (params.params["booster"] == "gblinear") params.params["updater"] = "coord_descent";
    auto with = config(folder, 1);
    with.datasets = {{"train", two_columns(false)}};
    auto const first = XGBoostTrainer{params, with}.fit();
    params.num_boost_round = 4;
    CHECK(XGBoostTrainer{params, with}.fit().metrics.number("round") == 3);
    params.params.clear();
    params.num_boost_round = 6;
    auto const last = XGBoostTrainer{params, with}.fit();
    CHECK(last.metrics.number("round") == 5);
    CHECK(*last.metrics.number("train-rmse") < *first.metrics.number("train-rmse"));
  }
}

TEST_CASE("a model keeps the names of its features when it goes on with rows that name none") {
  TemporaryFolder const folder;
  auto with = config(folder, 1);
  with.datasets = {{"train", two_columns(false)}};
  (void)XGBoostTrainer{regression(), with}.fit();
  std::vector<std::string> names;
  XGBoostTrainer further{
      [&](XGBoostContext& ctx) {
        std::vector<std::uint64_t> const indptr{0, 2, 4, 6};
        std::vector<std::uint32_t> const indices{0, 1, 0, 1, 0, 1};
        std::vector<float> const values{1, 2, 3, 4, 5, 6};
        std::vector<float> const labels{4, 10, 16};
        auto const train =
            ctx.dmatrix({.indptr = indptr, .indices = indices, .values = values, .columns = 2, .labels = labels});
        auto booster = ctx.booster(regression(), {&train});
        booster.update(booster.rounds(), train);
        for (auto const& [name, gain] : booster.feature_importance("gain")) names.push_back(name);
      },
      with};
  further.fit();
  CHECK(names == std::vector<std::string>{"a", "b"});
}

}  // namespace
