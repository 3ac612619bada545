// SPDX-License-Identifier: Apache-2.0
// What users get wrong, and what they are told.
#include <raytrain/backend/xgboost.hpp>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <xgboost/c_api.h>

#include <raytrain/backend/xgboost/detail/model_version.hpp>
#include <raytrain/backend/xgboost/xgboost_predictor.hpp>
#include <raytrain/data/dataset.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/thrown_error.hpp"
#include "xgboost_refused.hpp"
#include "xgboost_run.hpp"

namespace {

using namespace raytrain;
using namespace raytrain::testing;

TEST_CASE("a value that a parameter cannot have is refused with XGBoost's text") {
  TemporaryFolder const folder;
  auto params = parameters();
  params.params = {{"grow_policy", "sideways"}};
  check_contains(refused(params, config(folder, 2)),
                 "Invalid Input: 'sideways', valid values are: {'depthwise', 'lossguide'}");
}

TEST_CASE("classes of which nobody says how many there are are refused before anything starts") {
  TemporaryFolder const folder;
  auto params = parameters();
  params.objective = "multi:softprob";
  check_contains(refused(params, config(folder, 1)),
                 "XGBoostParams::num_class: is 0, and the objective is 'multi:softprob'; write how many classes");
  params.num_class = 3;
  params.params["num_class"] = "3";
  check_contains(refused(params, config(folder, 1)), "'num_class'");
}

TEST_CASE("virtual shards are refused, since XGBoost adds up what its own workers send") {
  TemporaryFolder const folder;
  auto with = config(folder, 2);
  with.scaling.virtual_shards = 4;
  CHECK(thrown_error([&] {
          return XGBoostTrainer{parameters(), with}.fit().history.size();
        }) ==
        "invalid_config: ScalingConfig::virtual_shards: is 4, and the backend 'xgboost' has none: its library adds up "
        "what its own workers send; leave it out");
}

TEST_CASE("of several workers the one whose data is wrong is named, on threads and distributed") {
  std::vector<float> labels(100);
  labels[70] = std::nanf("");  // of two distributed workers the second has it
  for (auto const mode : {XGBoostMode::automatic, XGBoostMode::distributed}) {
    TemporaryFolder const folder;
    auto with = config(folder, 2, mode);
    with.datasets = {{"train", Dataset::from_columns({{"x", std::vector<float>(100)}, {"target", labels}})}};
    auto const distributed = mode == XGBoostMode::distributed;
    auto const text = refused(parameters(), with);
    check_contains(text, distributed ? "rank 1 on " : "rank 0 on ");
    check_contains(text, distributed ? "row 20 of the label column 'target' is nan; leave out rows without a label"
                                     : "row 70 of the label column 'target' is nan");
    CHECK(text.find(distributed ? "rank 0 on " : "rank 1 on ") == std::string::npos);
  }
}

TEST_CASE("what XGBoost warns of while it trains is told once, without places in its sources") {
  TemporaryFolder const folder;
  auto with = config(folder, 1);
  auto const rows = sample(300, 1);
  Column const ones{"target", std::vector<std::uint8_t>(300, 1)};
  with.datasets = {{"train", rows}, {"valid", Dataset::from_columns({rows.column("x"), rows.column("noise"), ones})}};
  auto const warnings = XGBoostTrainer{parameters(3), with}.fit().warnings;
  REQUIRE(warnings.size() == 1);
  check_contains(warnings.front(), "XGBoost: Dataset is empty, or contains only positive or negative samples.");
}

TEST_CASE("workers with other features are refused, with what each of them has") {
  TemporaryFolder const folder;
  auto const with = config(folder, 2, XGBoostMode::distributed);
  XGBoostTrainer columns{[](XGBoostContext& ctx) {
                           DMatrixOptions options{.label = "target", .features = {"x", "noise"}};
                           if (ctx.world_rank() == Rank{1}) options.features.pop_back();
                           (void)ctx.dmatrix("train", options);
                         },
                         with};
  check_contains(thrown_error([&] { columns.fit(); }),
                 "XGBoostContext::dmatrix(\"train\"): rank 1 has 3 features (x_0, x_1, x_2), and rank 0 "
                 "has 4 features (x_0, x_1, x_2, noise); give all workers the same columns");
  XGBoostTrainer rows{[](XGBoostContext& ctx) {
                        std::vector<std::uint64_t> const indptr{0, 1};
                        std::vector<std::uint32_t> const indices{0};
                        std::vector<float> const values{1};
                        (void)ctx.dmatrix({.indptr = indptr,
                                           .indices = indices,
                                           .values = values,
                                           .columns = 3 + std::size_t{ctx.world_rank().value}});
                      },
                      with};
  check_contains(thrown_error([&] { rows.fit(); }),
                 "XGBoostContext::dmatrix(CsrRows): rank 1 has 4 features, and rank 0 has 3 features");
}

TEST_CASE("to predict from other features than those of the training is refused with both") {
  TemporaryFolder const folder;
  auto const result = XGBoostTrainer{parameters(2), config(folder, 1)}.fit();
  XGBoostPredictor const predictor{result.checkpoint().value()};
  auto const refused_with = [&](std::vector<std::string> const& features) {
    return thrown_error([&] { return predictor.predict(sample(10, 1), {.features = features}); });
  };
  check_contains(
      refused_with({"x"}),
      "invalid_data: predicting from a model of XGBoost: it has 4 features, and the data 3; give the columns");
  check_contains(refused_with({"noise", "x"}), "its feature 0 is 'x_0', and that of the data 'noise'");
}

TEST_CASE("the best rounds of a linear model are refused, since XGBoost would take all of them") {
  TemporaryFolder const folder;
  auto params = parameters(5);
  params.max_depth = XGBoostParams{}.max_depth;  // a linear model has none
  params.early_stopping_rounds = 3;
  params.params = {{"booster", "gblinear"}, {"updater", "coord_descent"}};
  auto const model = XGBoostTrainer{params, config(folder, 1)}.fit().checkpoint().value();
  CHECK(XGBoostPredictor{model}.predict(sample(10, 1), {.label = "target"}).values.size() == 10);
  check_contains(thrown_error([&] {
                   XGBoostPredictor{model, {.rounds = PredictedRounds::best}};
                 }),
                 "invalid_config: PredictorOptions::rounds: is best, and the model is a linear one ('gblinear'), which "
                 "has the sum of its rounds only; predict by PredictedRounds::all");
}

TEST_CASE("a linear model of several classes has no one weight of a feature, and one without classes does") {
  auto const predictor = [](XGBoostParams params) {
    TemporaryFolder const folder;
    params.params = {{"booster", "gblinear"}, {"updater", "coord_descent"}};
    return XGBoostPredictor{XGBoostTrainer{params, config(folder, 1)}.fit().checkpoint().value()};
  };
  check_contains(thrown_error([&] {
                   (void)predictor({.label = "target", .objective = "multi:softprob", .num_class = 3})
                       .feature_importance("weight");
                 }),
                 "invalid_call: Booster::feature_importance: this linear model has 3 weights of each feature, one for "
                 "each class; call XGBoosterFeatureScore with Booster::handle()");
  CHECK(predictor({.label = "target", .objective = "binary:logistic"}).feature_importance("weight").size() == 4);
}

// The same model, as an XGBoost of another version would have stored it.
auto stored_by(std::string model, detail::ModelVersion version, bool is_json) -> std::string {
  auto const [major, minor, patch] = version;
  auto const at = model.rfind("version");
  REQUIRE(at != std::string::npos);
  if (is_json) {
    auto const numbers = model.find('[', at);
    return model.replace(numbers, model.find(']', at) - numbers, fmt::format("[{}, {},{}", major, minor, patch));
  }
  auto const numbers = model.find('i', at + std::string{"version"}.size());
  for (std::size_t i = 0; i < 3; ++i) model[numbers + 1 + 2 * i] = static_cast<char>(version[i]);
  return model;
}

TEST_CASE("a model of a newer XGBoost is refused with both versions, and a newer patch or an older one is read") {
  TemporaryFolder const folder;
  auto params = parameters(2);
  auto const result = XGBoostTrainer{params, config(folder, 1)}.fit();
  XGBoostPredictor const predictor{result.checkpoint().value()};
  auto const data = sample(10, 1);
  auto const expected = predictor.predict(data, {.label = "target"}).values;
  detail::ModelVersion ours{};
  XGBoostVersion(&ours[0], &ours[1], &ours[2]);
  auto const [major, minor, patch] = ours;
  for (auto const* const name : {"model.json", "model.ubj"}) {
    auto const path = folder.path() / name;
    predictor.save_model(path);
    std::ifstream file{path, std::ios::binary};
    std::string const model{std::istreambuf_iterator<char>{file}, {}};
    CHECK(detail::model_version(bytes_of(model)) == ours);
    auto const store = [&](detail::ModelVersion version) {
      std::ofstream{path, std::ios::binary} << stored_by(model, version, path.extension() == ".json");
    };
    for (auto const& newer : {detail::ModelVersion{major + 1, 0, 2}, detail::ModelVersion{major, minor + 1, 0}}) {
      store(newer);
      auto const text = fmt::format(
          "reading a model of XGBoost: XGBoost {} has stored it, and this program has XGBoost {}.{}.{}; build with",
          fmt::join(newer, "."), major, minor, patch);
      check_contains(thrown_error([&] { XGBoostPredictor{path}; }), "invalid_data: " + text);
      params.initial_model = path;
      auto with = config(folder, 2);
      with.run.resume = Resume::fresh;
      check_contains(refused(params, with), text);
    }
    for (auto const& readable : {detail::ModelVersion{major, minor, 99}, detail::ModelVersion{1, 6, 0}}) {
      store(readable);
      CHECK(XGBoostPredictor{path}.predict(data, {.label = "target"}).values == expected);
    }
  }
}

TEST_CASE("what is no model is refused with the file's name or with XGBoost's text") {
  TemporaryFolder const folder;
  auto const path = folder.path() / "model.json";
  check_contains(thrown_error([&] { XGBoostPredictor{path}; }),
                 "model.json': there is no such file; name a model that");
  for (auto const* const text : {"", "{", "{}", "no model", "{\"version\": [9"}) {
    std::ofstream{path} << text;
    CAPTURE(text);
    check_contains(thrown_error([&] { XGBoostPredictor{path}; }), "backend: XGBoosterLoadModelFromBuffer: ");
  }
}

}  // namespace
