// SPDX-License-Identifier: Apache-2.0
// Networks that predict, of a checkpoint, a file or a model that is there.
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <raytrain/backend/torch/load_model.hpp>
#include <raytrain/backend/torch/torch_predictor.hpp>
#include <raytrain/backend/torch/torch_safetensors.hpp>
#include <raytrain/preprocess/any_preprocessor.hpp>
#include <raytrain/preprocess/standard_scaler.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/thrown_error.hpp"
#include "stored_state.hpp"
#include "torch_run.hpp"

using raytrain::testing::check_contains;
using raytrain::testing::TemporaryFolder;
using raytrain::testing::thrown_error;

namespace {

using namespace raytrain;

/// What it says of a row would depend on the other rows, and on chance, if it were not in eval mode.
struct Fickle : torch::nn::Module {
  Fickle() {
    torch::NoGradGuard const no_grad;
    norm->running_mean.fill_(0.25);
  }
  auto forward(torch::Tensor const& rows) -> torch::Tensor {
    sizes.push_back(rows.size(0));
    return dense(torch::dropout(norm(rows), 0.5, is_training()));
  }
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d{6});
  torch::nn::Linear dense = register_module("dense", torch::nn::Linear{6, 3});
  std::vector<std::int64_t> sizes;
};

/// Calls a function, whatever that does.
struct Calling : torch::nn::Module {
  explicit Calling(std::function<torch::Tensor(torch::Tensor)> called) : function{std::move(called)} {}
  auto forward(torch::Tensor const& rows) -> torch::Tensor { return function(rows); }
  std::function<torch::Tensor(torch::Tensor)> function;
};

auto refusal(auto const& predictor, torch::Tensor const& rows) -> std::string {
  return thrown_error([&] { return predictor.predict(rows); });
}

}  // namespace

TEST_CASE("what workers predict of their parts of a dataset is what one predicts of all rows") {
  torch::nn::Linear const model{3, 2};
  TorchPredictor const predictor{model.ptr()};
  auto const values = torch::rand({11, 3});
  auto const* const first = values.data_ptr<float>();
  auto const rows = Dataset::from_columns({{"features", std::vector<float>(first, first + values.numel()), {3}}});
  std::array<torch::Tensor, 3> of_workers;
  run_once({.workers = 3, .datasets = {{"train", rows}}}, [&](TorchContext& ctx) {
    of_workers.at(ctx.world_rank().value) = predictor.predict(ctx.dataset_shard("train").part());
  });
  CHECK(of_workers[0].size(0) < 11);
  CHECK(torch::allclose(torch::cat({of_workers[0], of_workers[1], of_workers[2]}), predictor.predict(rows)));
}

TEST_CASE("rows are predicted in eval mode, in batches, in their order, and without gradients") {
  auto const model = std::make_shared<Fickle>();
  auto const rows = torch::rand({10, 6});
  TorchPredictor const predictor{model, {.batch_size = 4}};
  CHECK_FALSE(model->is_training());
  auto const predicted = predictor.predict(rows);
  CHECK(model->sizes == std::vector<std::int64_t>{4, 4, 2});
  auto const expected = torch::linear((rows - 0.25) / std::sqrt(1 + 1e-5), model->dense->weight, model->dense->bias);
  CHECK(predicted.sizes() == torch::IntArrayRef{10, 3});
  CHECK(torch::allclose(predicted, expected, 1e-5, 1e-6));
  CHECK_FALSE(predicted.requires_grad());
  CHECK(model->norm->running_mean.equal(torch::full({6}, 0.25)));
  for (std::int64_t const size : {1, 9, 10, 11}) {
    CHECK(torch::allclose(TorchPredictor{model, {.batch_size = size}}.predict(rows), predicted, 1e-5, 1e-6));
  }
}

TEST_CASE("a batch is part of the caller's rows, which nobody copies") {
  auto const rows = torch::rand({5, 2});
  std::vector<void const*> places;
  TorchPredictor const predictor{Calling{[&](torch::Tensor const& batch) {
                                   places.push_back(batch.data_ptr());
                                   return batch * 2;
                                 }},
                                 {.batch_size = 3}};
  CHECK(predictor.predict(rows).equal(rows * 2));
  CHECK(places == std::vector<void const*>{rows.data_ptr(), rows[3].data_ptr()});
}

TEST_CASE("a checkpoint, a file and a model that is there predict alike") {
  TemporaryFolder const folder;
  Fickle const model;
  Stored const stored{model};
  save_safetensors(model, folder.path() / "net.safetensors");
  auto const rows = torch::rand({3, 6});
  auto const of_checkpoint = TorchPredictor<Fickle>{stored.checkpoint()}.predict(rows);
  CHECK(of_checkpoint.equal(TorchPredictor<Fickle>{folder.path() / "net.safetensors"}.predict(rows)));
  CHECK(of_checkpoint.equal(TorchPredictor{load_model<Fickle>(stored.checkpoint())}.predict(rows)));
  CHECK(of_checkpoint.equal(TorchPredictor{Fickle{model}}.predict(rows)));
}

TEST_CASE("a dataset's rows are predicted as they were read, changed by the checkpoint's preprocessor") {
  TemporaryFolder const folder;
  Dataset const train = Dataset::from_columns({{"features", std::vector<float>{1, 10, 3, 30}, {2}}});
  Trainer<TorchBackend> trainer{[](TorchContext& ctx) {
                                  auto model = ctx.prepare_model([] { return torch::nn::Linear{2, 1}; });
                                  ctx.report(Epoch{0, 0}, save(model));
                                },
                                {.run = {.name = "scaled", .storage_path = folder.path()},
                                 .datasets = {{"train", train}},
                                 .preprocessor = StandardScaler{{"features"}}}};
  auto const result = trainer.fit();
  TorchPredictor const predictor{*result.checkpoint(), [] { return torch::nn::Linear{2, 1}; }};
  auto const predicted = predictor.predict(train);
  CHECK(predicted.sizes() == torch::IntArrayRef{2, 1});
  CHECK(torch::allclose(predicted, predictor.predict(torch::tensor({{-1.0F, -1.0F}, {1.0F, 1.0F}}))));
  check_contains(thrown_error([&] { (void)predictor.predict(train, "x"); }), "column 'x': is not in the dataset");
}

TEST_CASE("a checkpoint brings its preprocessor by itself, and none is needed where there was none") {
  TemporaryFolder const folder;
  Dataset const train =
      Dataset::from_columns({{"features", std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 8, 7, 6}, {6}}});
  auto const predicted = [&](AnyPreprocessor preprocessor) {
    Trainer<TorchBackend> trainer{[](TorchContext& ctx) {
                                    auto model = ctx.prepare_model([] { return std::make_shared<Fickle>(); });
                                    ctx.report(Epoch{0, 0}, save(model));
                                  },
                                  {.run = {.name = "scaled", .storage_path = folder.path(), .resume = Resume::fresh},
                                   .datasets = {{"train", train}},
                                   .preprocessor = std::move(preprocessor)}};
    auto const result = trainer.fit();
    return TorchPredictor<Fickle>{*result.checkpoint()}.predict(train);
  };
  CHECK_FALSE(predicted(StandardScaler{{"features"}}).equal(predicted({})));
}

TEST_CASE("what a model gives lives on where it gives the rows of a dataset that is gone") {
  TorchPredictor const predictor{Calling{[](torch::Tensor const& rows) { return rows; }}};
  auto const predicted = [&] {
    return predictor.predict(Dataset::from_columns({{"features", std::vector<float>(1'000, 3), {10}}}));
  }();
  CHECK(predicted.equal(torch::full({100, 10}, 3.0F)));
}

TEST_CASE("a model that works in place leaves the dataset as it is") {
  TorchPredictor const predictor{Calling{[](torch::Tensor const& rows) { return rows.mul_(2); }}, {.batch_size = 2}};
  auto const rows = Dataset::from_columns({{"features", std::vector<float>{1, 2, 3}}});
  CHECK(predictor.predict(rows).equal(torch::tensor({2.0F, 4.0F, 6.0F})));
  CHECK(predictor.predict(rows).equal(torch::tensor({2.0F, 4.0F, 6.0F})));
  CHECK(rows.column("features").as<float>()[2] == 3.0F);
}

TEST_CASE("rows of a whole number's type predict what the model makes of them") {
  torch::nn::Embedding const embedding{5, 2};
  TorchPredictor const predictor{embedding, {.batch_size = 2}};
  CHECK(
      predictor.predict(torch::tensor({4, 0, 4})).equal(embedding->weight.detach().index({torch::tensor({4, 0, 4})})));
}

TEST_CASE("no rows, none at all and a single number are refused") {
  TorchPredictor const predictor{torch::nn::Linear{2, 1}};
  check_contains(refusal(predictor, torch::zeros({0, 2})),
                 "invalid_data: predicting rows: there are none in {0, 2} Float; give a tensor of {rows, ...}");
  check_contains(refusal(predictor, torch::Tensor{}), "there are none in an undefined tensor");
  check_contains(refusal(predictor, torch::ones({})), "there are none in {} Float");
}

TEST_CASE("rows that the model does not take are refused with their shape and type, and LibTorch's reason") {
  TorchPredictor const predictor{torch::nn::Linear{2, 1}};
  auto const text = refusal(predictor, torch::zeros({7, 3}));
  check_contains(text, "backend: predicting {7, 3} Float: ");
  check_contains(text, "mat1 and mat2 shapes cannot be multiplied");
  check_contains(text, "; give rows of the shape and type that the model was trained with");
  CHECK(text.find('\n') == std::string::npos);
  check_contains(refusal(predictor, torch::zeros({7, 2}, torch::kLong)), "backend: predicting {7, 2} Long: ");
}

TEST_CASE("a model that gives no row for each row is refused") {
  auto const refused = [](std::function<torch::Tensor(torch::Tensor)> function) {
    return refusal(TorchPredictor{Calling{std::move(function)}, {.batch_size = 2}}, torch::ones({5, 3}));
  };
  check_contains(refused([](auto const& rows) { return rows.sum(); }), "the model gives {} Float for 2 rows");
  check_contains(refused([](auto const& rows) { return rows.t(); }),
                 "backend: predicting {5, 3} Float: the model gives {3, 2} Float for 2 rows; let forward give a row");
  check_contains(refused([](auto const&) { return torch::Tensor{}; }), "the model gives nothing for 2 rows");
  check_contains(refused([](auto const& rows) { return rows.size(0) == 2 ? rows : rows.narrow(1, 0, 1); }),
                 "the model gives {1, 1} Float after {4, 3} Float");
  check_contains(refused([](auto const& rows) { return rows.size(0) == 2 ? rows : rows.to(torch::kDouble); }),
                 "the model gives {1, 3} Double after {4, 3} Float");
}

TEST_CASE("batches of no rows are refused before any prediction") {
  auto const made = [](std::int64_t size) {
    return thrown_error([&] { return TorchPredictor{torch::nn::Linear{2, 1}, {.batch_size = size}}; });
  };
  check_contains(made(0), "invalid_config: TorchPredictorOptions::batch_size: must be at least 1 (got 0)");
  check_contains(made(-5), "(got -5)");
}

TEST_CASE("threads predict at the same time, each its own rows") {
  // One that waited for the other's end would never come to it.
  std::latch all_are_in{4};
  torch::nn::Linear const linear{3, 2};
  TorchPredictor const predictor{Calling{[&](torch::Tensor const& rows) {
    all_are_in.arrive_and_wait();
    torch::nn::Linear layer = linear;
    return layer(rows);
  }}};
  std::array<torch::Tensor, 4> predicted;
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < predicted.size(); ++i) {
      threads.emplace_back([&, i] { predicted[i] = predictor.predict(torch::full({2, 3}, static_cast<double>(i))); });
    }
  }
  torch::NoGradGuard const no_grad;
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    auto const expected = torch::linear(torch::full({2, 3}, static_cast<double>(i)), linear->weight, linear->bias);
    CHECK(torch::allclose(predicted[i], expected));
    CHECK_FALSE(predicted[i].requires_grad());
  }
}
