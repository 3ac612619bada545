// SPDX-License-Identifier: Apache-2.0
// What LightGBM is fed block by block.
#include <raytrain/backend/lightgbm.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/backend/lightgbm/lightgbm_predictor.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/preprocess/standard_scaler.hpp>
#include <raytrain/trainer.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/thrown_error.hpp"
#include "boosting_blocks.hpp"
#include "lightgbm_runs.hpp"

namespace {

using namespace raytrain;
using namespace raytrain::testing;

using Params = std::map<std::string, std::string>;

auto const usual =
    Params{{"objective", "binary"},    {"metric", "binary_logloss"}, {"num_leaves", "15"}, {"deterministic", "true"},
           {"force_col_wise", "true"}, {"num_threads", "2"},         {"verbosity", "-1"},  {"seed", "3"}};

auto with(Params more) -> Params {
  more.insert(usual.begin(), usual.end());  // but for those that it has
  return more;
}

auto boosted(LightGBMDataset const& train, Params const& params, LightGBMBooster::Datasets const& others = {})
    -> LightGBMBooster {
  LightGBMBooster booster{train, params, others};
  for (int round = 0; round < 6; ++round) booster.update();
  return booster;
}

/// Those of `rows_of`, and "s" and "t", which tell the target, but are 0 of 19 rows in 20.
auto rows_with_zeros(std::size_t count) -> Dataset {
  auto const rows = rows_of(count);
  auto const target = rows.column("target").as<std::uint8_t>();
  std::mt19937 random{7};
  std::normal_distribution<float> normal;
  std::vector<float> s(count);
  std::vector<float> t(count);
  for (auto* const column : {&s, &t}) {
    for (std::size_t row = 0; row < count; ++row) {
      if (random() % 20 == 0) (*column)[row] = normal(random) + (target[row] == 1 ? 2.0F : -2.0F);
    }
  }
  return rows.add_column({"s", s}).add_column({"t", t});
}

TEST_CASE("blocks give the model that the same rows in memory give, byte for byte") {
  auto const rows = rows_with_zeros(8'000);
  LightGBMDatasetOptions options{.label = "target", .features = {"c", "a", "b", "s", "t"}, .params = usual};
  SUBCASE("of numbers") {}
  SUBCASE("with weights") { options.weight = "w"; }
  SUBCASE("with categories") { options.categorical = {"c"}; }
  SUBCASE("with bins of some of the rows") { options.params = with({{"bin_construct_sample_cnt", "700"}}); }
  SUBCASE("with other rows to find bins in") {
    options.params = with({{"bin_construct_sample_cnt", "700"}, {"data_random_seed", "9"}});
  }
  SUBCASE("with more bins than a byte tells") { options.params = with({{"max_bin", "1000"}}); }
  SUBCASE("with zeros that stand for none") { options.params = with({{"zero_as_missing", "true"}}); }
  SUBCASE("with as many threads as LightGBM likes") { options.params.erase("num_threads"); }
  auto const expected = boosted(LightGBMDataset{rows, options}, options.params).to_text();
  for (std::size_t const each : {8'000, 3'001}) {
    LightGBMDataset const of_blocks{anew(rows, each), options};
    CHECK(boosted(of_blocks, options.params).to_text() == expected);
  }
}

TEST_CASE("blocks of columns that lie side by side, and of whole numbers beyond floats, are read exactly") {
  std::vector<float> x;
  std::vector<double> big;
  std::vector<float> target;
  for (int i = 0; i < 3'000; ++i) {
    x.push_back(static_cast<float>(i % 70));
    x.push_back(static_cast<float>(i % 11));
    big.push_back(16'777'216.0 + i % 2);
    target.push_back(static_cast<float>(i % 2));
  }
  for (auto const& rows : {Dataset::from_columns({{"x", x, {2}}, {"target", target}}),
                           Dataset::from_columns({{"x", x, {2}}, {"big", big}, {"target", target}})}) {
    LightGBMDatasetOptions const options{.label = "target", .params = usual};
    auto const expected = boosted(LightGBMDataset{rows, options}, usual).to_text();
    LightGBMDataset const of_blocks{anew(rows, 700), options};
    CHECK(boosted(of_blocks, usual).to_text() == expected);
  }
}

TEST_CASE("a block of more rows than LightGBM gets at once gives the model of the same rows in memory") {
  auto const rows = rows_of(70'000);
  LightGBMDatasetOptions const options{.label = "target", .params = usual};
  LightGBMDataset const of_blocks{anew(rows, 66'000), options};
  CHECK(of_blocks.rows() == 70'000);
  CHECK(boosted(of_blocks, usual).to_text() == boosted(LightGBMDataset{rows, options}, usual).to_text());
}

TEST_CASE("a dataset of blocks has all names, labels and weights") {
  auto const rows = rows_of(5'000).add_column({"two words", std::vector<float>(5'000)});
  LightGBMDataset const dataset{anew(rows, 1'500),
                                {.label = "target", .weight = "w", .features = {"c", "two words"}, .params = usual}};
  CHECK(dataset.feature_names() == std::vector<std::string>{"c", "two_words"});
  CHECK(std::ranges::equal(dataset.labels(), rows.column("target").as<std::uint8_t>()));
  double sum = 0;
  for (auto const weight : rows.column("w").as<float>()) sum += static_cast<double>(weight);
  CHECK(dataset.total_weight() == sum);
}

TEST_CASE("blocks with the bins of a reference are evaluated as their values in memory are") {
  auto const train = rows_with_zeros(8'000);
  auto const valid = rows_with_zeros(10'000).split_at(8'000).second;
  for (std::string const weight_of_train : {"", "w"}) {
    for (std::string const weight_of_valid : {"", "w"}) {
      LightGBMDatasetOptions const of_train{
          .label = "target", .weight = weight_of_train, .features = {"a", "b", "c", "s", "t"}, .params = usual};
      auto of_valid = of_train;
      of_valid.weight = weight_of_valid;
      LightGBMDataset reference{anew(train, 3'000), of_train};
      reference.set_initial_scores(std::vector<double>(8'000, 0.25));
      LightGBMDataset const of_blocks{anew(valid, 700), of_valid, &reference};
      LightGBMDataset const of_memory{valid, of_valid, &reference};
      auto const booster = boosted(reference, usual, {{"blocks", &of_blocks}, {"memory", &of_memory}});
      auto const losses = booster.evaluate();
      CHECK(losses[1].value == losses[2].value);
      CHECK(losses[1].value < 0.6);
    }
  }
}

TEST_CASE("a reader of blocks may predict with all cores while LightGBM takes their values") {
  auto const rows = rows_with_zeros(8'000);
  LightGBMDatasetOptions const options{
      .label = "target", .features = {"a", "b", "c", "s", "t"}, .params = with({{"num_threads", "1"}})};
  auto const model = boosted(LightGBMDataset{rows, options}, options.params);
  auto const cores = static_cast<int>(std::thread::hardware_concurrency());
  auto const make = [&, passes = 0]() mutable {
    return blocks_of(rows, 500).map("watched", [&, is_last = ++passes == 3](Dataset const& block) {
      if (is_last && block.rows() > 0) (void)model.predict(block, {.features = options.features}, {.threads = cores});
      return block;
    });
  };
  LightGBMDataset const of_blocks{make, options};
  CHECK(boosted(of_blocks, options.params).to_text() == model.to_text());
}

/// Makes a dataset of blocks.
void take(MakeBlocks const& make) { LightGBMDataset{make, {.label = "target", .params = usual}}; }

TEST_CASE("one block is in memory at a time") {
  check_one_block_is_in_memory(
      [](MakeBlocks const& make) {
        LightGBMDataset const dataset{make, {.params = usual}};
        CHECK(dataset.rows() == 9'000);
      },
      30);
}

TEST_CASE("what a reader throws, in whichever pass over the rows, is the error that arrives") {
  check_error_of_reader_arrives(rows_of(4'000), take, 15);
}

TEST_CASE("other rows than LightGBM has seen at first are refused") {
  check_other_rows_are_refused("LightGBMDataset", take);
}

TEST_CASE("blocks that LightGBM cannot take are refused, with the rows that are wrong") {
  check_bad_blocks_are_refused("LightGBMDataset", take);
  auto const rows = rows_of(4'000);
  auto const refused = [&](LightGBMDatasetOptions const& options, LightGBMDataset const* reference = nullptr) {
    return thrown_error([&] { LightGBMDataset{anew(rows, 100), options, reference}; });
  };
  check_contains(refused({.label = "target", .group = "c", .params = usual}),
                 "LightGBMDatasetOptions::group: is 'c', and rows that come in blocks have no groups");
  auto const linear = with({{"linear_tree", "true"}});
  check_contains(
      refused({.label = "target", .params = linear}),
      "LightGBMDatasetOptions::params: holds 'linear_tree', for which LightGBM needs all values, and of blocks");
  LightGBMDataset const of_values{rows, {.label = "target", .params = linear}};
  check_contains(refused({.label = "target", .params = usual}, &of_values), "holds 'linear_tree'");
  check_contains(refused({.label = "target", .params = with({{"max_bin", "1"}})}), "max_bin");
}

TEST_CASE("a reference with other features, or in another order, is refused, of blocks and of rows in memory") {
  auto const rows = rows_of(4'000);
  LightGBMDatasetOptions options{.label = "target", .features = {"a", "b"}, .params = usual};
  LightGBMDataset const train{rows, options};
  auto const refused = [&](std::vector<std::string> const& features, std::string const& why) {
    options.features = features;
    check_contains(thrown_error([&] { LightGBMDataset{anew(rows, 100), options, &train}; }), why);
    check_contains(thrown_error([&] { LightGBMDataset{rows, options, &train}; }), why);
  };
  refused({"b", "a"},
          "invalid_data: LightGBMDataset with the bins of a reference: its feature 0 is 'b', and that of the reference "
          "'a'; give the columns of the rows to train on, in their order");
  refused({"a"}, "it has 1 features, and the reference 2");
  refused({"a", "b", "c"}, "it has 3 features, and the reference 2");
  options.features = {"a", "b"};
  LightGBMDataset const of_own_bins{anew(rows_of(3'000, false), 100), options};
  check_contains(thrown_error([&] {
                   (void)boosted(train, usual, {{"valid", &of_own_bins}});
                 }),
                 "bin mappers with training data; make it with the dataset to train on as its reference");
}

TEST_CASE("workers that have blocks of their own come to the model of the same parts in memory") {
  TemporaryFolder const folder;
  auto settings = config(folder, 3, LightGBMMode::distributed);
  settings.datasets = {{"train", rows_with_zeros(9'001)}, {"valid", rows_with_zeros(2'000)}};
  settings.data = {.datasets_to_split = {"train", "valid"}};
  auto params = parameters();
  params.weight = "w";
  params.categorical = {"c"};
  params.params = {{"bin_construct_sample_cnt", "500"}};
  std::vector<std::string> of_memory(3);
  std::vector<std::string> of_blocks(3);
  std::vector<double> differences(3, 1);
  LightGBMTrainer trainer{[&](LightGBMContext& ctx) {
                            auto const rank = ctx.world_rank().value;
                            auto const part = [&](auto name) { return ctx.dataset_shard(name).part(); };
                            auto const loss = [&](LightGBMDataset const& train, LightGBMDataset const& valid,
                                                  std::string& model) {
                              auto booster = ctx.booster(params, train, {{"valid", &valid}});
                              for (int round = 0; round < 6; ++round) booster.update();
                              model = booster.to_text();
                              return ctx.evaluate(booster).back().value;
                            };
                            auto const train = ctx.dataset("train", params);
                            auto const expected = loss(train, ctx.dataset("valid", params, &train), of_memory[rank]);
                            auto const blocks = ctx.dataset(anew(part("train"), 700), params);
                            auto const valid = ctx.dataset(anew(part("valid"), 300), params, &blocks);
                            differences[rank] = loss(blocks, valid, of_blocks[rank]) - expected;
                          },
                          settings};
  trainer.fit();
  CHECK(of_memory[1] == of_memory[0]);
  CHECK(of_blocks == of_memory);
  CHECK(differences == std::vector<double>(3));
}

TEST_CASE("where one worker's reader fails, the others are stopped, and the run says why") {
  for (int const call : {1, 3, 6, 9, 15}) {
    TemporaryFolder const folder;
    auto settings = config(folder, 3, LightGBMMode::distributed);
    settings.datasets = {{"train", rows_of(12'000)}};
    std::vector<int> trained(3);
    LightGBMTrainer trainer{[&](LightGBMContext& ctx) {
                              auto const rank = ctx.world_rank().value;
                              auto const part = ctx.dataset_shard("train").part();
                              auto const make =
                                  rank == 1 ? failing_at(part, std::make_shared<int>(call)) : anew(part, 1'000);
                              auto const train = ctx.dataset(make, parameters());
                              auto booster = ctx.booster(parameters(), train);
                              booster.update();
                              trained[rank] = 1;
                            },
                            settings};
    auto const error = thrown_error([&] { trainer.fit(); });
    check_contains(error, "reading rows.csv: the disk is gone");
    check_contains(error, "rank 1");
    CHECK_MESSAGE(trained == std::vector<int>(3), call);
  }
}

TEST_CASE("workers whose blocks have other features are told so before LightGBM is") {
  TemporaryFolder const folder;
  LightGBMTrainer trainer{[&](LightGBMContext& ctx) {
                            auto part = rows_of(1'000);
                            if (ctx.world_rank().value == 1) part = part.drop_columns({"b"});
                            (void)ctx.dataset(anew(part, 300), parameters());
                          },
                          config(folder, 2, LightGBMMode::distributed)};
  check_contains(thrown_error([&] { trainer.fit(); }),
                 "rank 1 has 3 features (a, c, w), and rank 0 has 4 features (a, b, c, w)");
}

/// Boosts on blocks, or on the same rows in memory, to so many rounds, by as many more runs as it is called.
auto boosted_to(TemporaryFolder const& folder, LightGBMParams params, int rounds, bool in_blocks) -> std::string {
  auto const rows = rows_with_zeros(3'000);
  auto settings = config(folder, 2, LightGBMMode::distributed);
  settings.run.name = in_blocks ? "blocks" : "memory";
  settings.datasets = {{"train", rows}};
  LightGBMTrainer trainer{[&](LightGBMContext& ctx) {
                            auto const part = ctx.dataset_shard("train").part();
                            auto const train =
                                in_blocks ? ctx.dataset(anew(part, 400), params) : ctx.dataset("train", params);
                            auto booster = ctx.booster(params, train);
                            while (booster.rounds() < rounds) booster.update();
                            ctx.report(Metrics{{"rounds", std::int64_t{booster.rounds()}}}, save(booster));
                          },
                          settings};
  return model_of(trainer.fit());
}

TEST_CASE("a training on blocks goes on from a checkpoint as one on rows in memory does") {
  LightGBMParams params = parameters();
  SUBCASE("of two classes") {}
  SUBCASE("of four classes") {
    params.label = "c";
    params.objective = "multiclass";
    params.metric = {};
    params.num_class = 4;
  }
  TemporaryFolder const folder;
  for (int const rounds : {3, 6}) {
    auto const of_blocks = boosted_to(folder, params, rounds, true);
    CHECK(of_blocks == boosted_to(folder, params, rounds, false));
  }
}

TEST_CASE("the run's preprocessor makes blocks what it makes datasets, and goes into the checkpoint") {
  TemporaryFolder const folder;
  auto const rows = rows_of(3'000, false);
  auto settings = config(folder, 1);
  settings.datasets = {{"train", rows}};
  settings.preprocessor = StandardScaler{{"a", "b"}};
  std::string of_memory;
  LightGBMTrainer trainer{[&](LightGBMContext& ctx) {
                            auto const params = parameters();
                            auto const boost = [&](LightGBMDataset const& train) {
                              auto booster = ctx.booster(params, train);
                              for (int round = 0; round < 6; ++round) booster.update();
                              return booster;
                            };
                            of_memory = boost(ctx.dataset("train", params)).to_text();
                            auto const train = ctx.dataset(anew(rows, 700), params);
                            ctx.report(Metrics{{"round", std::int64_t{6}}}, save(boost(train)));
                          },
                          settings};
  auto const result = trainer.fit();
  CHECK(model_of(result) == of_memory);
  auto const predictions = LightGBMPredictor{result.checkpoint().value()}.predict(rows, {.label = "target"});
  CHECK(predictions.values.size() == rows.rows());
}

}  // namespace
