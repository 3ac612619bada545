// SPDX-License-Identifier: Apache-2.0
#include <raytrain/backend/torch/averaged_model.hpp>

#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include <raytrain/backend/torch.hpp>
#include <raytrain/backend/torch/detail/stored_tensors.hpp>
#include <raytrain/checkpoint/safetensors.hpp>

#include "../support/thrown_error.hpp"
#include "stored_state.hpp"
#include "torch_run.hpp"

using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;

namespace {

using namespace raytrain;

/// A weight of two numbers, and buffers: a mean and a count.
struct CountedImpl : torch::nn::Module {
  void set(double value) {
    torch::NoGradGuard const no_grad;
    weight.fill_(value);
    mean.fill_(10 * value);
    count.add_(1);
  }
  torch::Tensor weight = register_parameter("weight", torch::zeros({2}));
  torch::Tensor mean = register_buffer("mean", torch::zeros({1}));
  torch::Tensor count = register_buffer("count", torch::zeros({}, torch::kLong));
};
TORCH_MODULE(Counted);

/// Weight, mean and count of the average after updates with these weights.
auto average_of(AveragedModelConfig const& config, std::vector<double> const& weights) -> std::vector<double> {
  Counted model;
  AveragedModel averaged{model, config};
  for (auto const weight : weights) {
    model->set(weight);
    averaged.update();
  }
  CHECK(averaged.updates() == static_cast<std::int64_t>(weights.size()));
  auto const in_place = averaged.put_in_place();
  return {model->weight[1].item<double>(), model->mean.item<double>(), model->count.item<double>()};
}

/// Rank 0's parameters, and its averages, at the end of a training up to `epochs`.
auto averaged_training(AveragedModelConfig const& config, int epochs, std::filesystem::path const& folder)
    -> std::pair<Tensors, Tensors> {
  Tensors parameters;
  Tensors averages;
  run_in(folder, {2, 5, {{"train", small_images(128)}}}, [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] {
      return torch::nn::Sequential{torch::nn::Linear{64, 8}, torch::nn::BatchNorm1d{8}, torch::nn::Linear{8, 10}};
    });
    torch::optim::SGD optimizer{model->parameters(), 0.1};
    AveragedModel averaged{model, config};
    auto shard = ctx.dataset_shard("train");
    for (auto epoch = ctx.restore(model, optimizer, averaged); epoch < epochs; ++epoch) {
      for (auto const& batch : shard.batches({.batch_size = 16, .epoch = epoch})) {
        optimizer.zero_grad();
        auto const images = batch["image"].to(torch::kFloat).flatten(1) / 255;
        torch::nn::functional::cross_entropy(model->forward(images), batch["label"].to(torch::kLong)).backward();
        optimizer.step();
        averaged.update();
      }
      ctx.report(Epoch{epoch, 1.0}, save(model, optimizer, averaged));
    }
    if (ctx.world_rank() != Rank{0}) return;
    parameters = copies(model->parameters());
    auto const in_place = averaged.put_in_place();
    averages = copies(model->parameters());
    for (auto const& buffer : copies(model->buffers())) averages.push_back(buffer);
  });
  return {parameters, averages};
}

}  // namespace

TEST_CASE("without a decay the average is the mean of all updates") {
  CHECK(average_of({}, {1, 2, 6}) == std::vector{3.0, 60.0, 3.0});
  CHECK(average_of({}, {5}) == std::vector{5.0, 50.0, 1.0});
}

TEST_CASE("with a decay the average keeps that share of itself at each update, and the first weights are it") {
  CHECK(average_of({.decay = 0.75}, {1, 5, 6}) == std::vector{3.0, 60.0, 3.0});  // 1, 0.75 + 1.25 = 2, 1.5 + 1.5
  CHECK(average_of({.decay = 0}, {1, 5}) == std::vector{5.0, 50.0, 2.0});
}

TEST_CASE("buffers of floating-point numbers are averaged where that is asked for, and counts are the newest") {
  CHECK(average_of({.use_buffers = true}, {1, 2, 6}) == std::vector{3.0, 30.0, 3.0});
  CHECK(average_of({.decay = 0.75, .use_buffers = true}, {1, 5, 6}) == std::vector{3.0, 30.0, 3.0});
}

TEST_CASE("a model has the weights with which it trains again, bit by bit, when its average was in place") {
  Counted model;
  AveragedModel averaged{model, {.decay = 0.9, .use_buffers = true}};
  for (auto const weight : {0.1, 0.7}) {
    model->set(weight);
    averaged.update();
  }
  auto const trained = copies({model->weight, model->mean, model->count});
  Tensors first;
  for (int round = 0; round < 2; ++round) {
    {
      auto const in_place = averaged.put_in_place();
      auto const now = copies({model->weight, model->mean});
      CHECK_FALSE(torch::equal(now[0], trained[0]));
      if (round > 0) CHECK(same_bits(now, first));
      first = now;
    }
    CHECK(same_bits({model->weight, model->mean, model->count}, trained));
  }
}

TEST_CASE("an average of nothing yet is the model itself, also one that is filled after it was made") {
  Counted model;
  AveragedModel averaged{model};
  model->set(4);
  auto const in_place = averaged.put_in_place();
  CHECK(model->weight[0].item<double>() == 4);
}

TEST_CASE("the file of an average of nothing yet holds the model's weights, also of one that is filled later") {
  Counted model;
  AveragedModel const averaged{model};
  model->set(4);
  Stored const stored{model, averaged};
  Counted other;
  AveragedModel of_other{other};
  CHECK(of_other.load_from(stored.checkpoint()).empty());
  CHECK(of_other.updates() == 0);
  auto const file = stored.checkpoint().read("averaged_model.safetensors");
  auto const index = read_tensor_index(file, "reading");
  REQUIRE(index.tensors.size() == 1);
  auto const weights = torch::zeros({2});
  raytrain::detail::fill_tensors(file, {{"weight", weights}}, "reading");
  CHECK(torch::equal(weights, model->weight));
}

TEST_CASE("an average of weights of 16 bits moves by less than these can hold, and gives them back bit by bit") {
  for (auto const type : {torch::kBFloat16, torch::kHalf}) {
    CAPTURE(c10::toString(type));
    Counted model;
    model->to(type);
    model->set(1);
    AveragedModel averaged{model, {.decay = 0.999}};
    averaged.update();
    model->set(2);
    for (int i = 0; i < 3000; ++i) averaged.update();
    auto const trained = copies({model->weight});
    for (int round = 0; round < 2; ++round) {
      {
        auto const in_place = averaged.put_in_place();
        CHECK((model->weight.scalar_type() == type));
        CHECK(model->weight[0].item<double>() == doctest::Approx(2 - std::pow(0.999, 3000)).epsilon(0.005));
      }
      CHECK(same_bits({model->weight}, trained));
    }
    Stored const stored{model, averaged};
    AveragedModel resumed{model, {.decay = 0.999}};
    CHECK(resumed.load_from(stored.checkpoint()).empty());
    auto const in_place = resumed.put_in_place();
    CHECK(model->weight[0].item<double>() < 1.96);
  }
}

TEST_CASE("a model that became one of doubles has its own weights again, bit by bit") {
  torch::nn::Linear model{3, 1};
  AveragedModel averaged{model};
  averaged.update();
  model->to(torch::kDouble);
  {
    torch::NoGradGuard const no_grad;
    model->weight.fill_(1.0 / 3);
  }
  { auto const in_place = averaged.put_in_place(); }
  CHECK(model->weight[0][0].item<double>() == 1.0 / 3);
}

TEST_CASE("a parameter that two modules share is averaged once") {
  auto const shared = std::make_shared<torch::nn::LinearImpl>(2, 2);
  torch::nn::Module model;
  model.register_module("first", shared);
  model.register_module("second", shared);
  AveragedModel averaged{model};
  torch::NoGradGuard const no_grad;
  for (auto const weight : {1.0, 3.0}) {
    shared->weight.fill_(weight);
    averaged.update();
  }
  {
    auto const in_place = averaged.put_in_place();
    CHECK(shared->weight[0][0].item<double>() == 2);
  }
  CHECK(shared->weight[0][0].item<double>() == 3);
}

TEST_CASE("an average goes on after an interruption to the very bits of one that had none") {
  for (auto const& config : {AveragedModelConfig{}, AveragedModelConfig{.decay = 0.9},
                             AveragedModelConfig{.decay = 0.9, .use_buffers = true}}) {
    TemporaryFolder const whole;
    TemporaryFolder const parts;
    auto const expected = averaged_training(config, 4, whole.path());
    CHECK_FALSE(same_bits(averaged_training(config, 2, parts.path()).second, expected.second));
    auto const resumed = averaged_training(config, 4, parts.path());
    CHECK(same_bits(resumed.second, expected.second));
    CHECK(same_bits(resumed.first, expected.first));
    CHECK_FALSE(same_bits({resumed.second.begin(), resumed.second.begin() + 6}, resumed.first));
  }
}

TEST_CASE("the file of an average has the names of the model, and says of how many updates it is") {
  torch::nn::Linear model{2, 1};
  AveragedModel averaged{model, {.decay = 0.5}};
  averaged.update();
  auto const draft = draft_of(model, averaged);
  auto const file = draft.files().at("averaged_model.safetensors");
  auto const index = read_tensor_index(file.view(), "reading");
  CHECK(index.metadata == TensorMetadata{{"decay", "0.5"}, {"format", "pt"}, {"updates", "1"}});
  REQUIRE(index.tensors.size() == 2);
  CHECK(index.tensors[0].name == "weight");
  CHECK(index.tensors[1].name == "bias");
}

TEST_CASE("an average that goes on with another decay says so") {
  torch::nn::Linear model{2, 1};
  AveragedModel averaged{model, {.decay = 0.5}};
  averaged.update();
  Stored const stored{model, averaged};
  AveragedModel same{model, {.decay = 0.5}};
  CHECK(same.load_from(stored.checkpoint()).empty());
  CHECK(same.updates() == 1);
  AveragedModel other{model};
  CHECK(other.load_from(stored.checkpoint()) ==
        "the average of the model's weights goes on with the decay unset; in the checkpoint it was 0.5");
}

TEST_CASE("an average that cannot be is refused") {
  torch::nn::Linear model{2, 1};
  check_contains(thrown_error([&] {
                   AveragedModel{model, {.decay = 1}};
                 }),
                 "AveragedModelConfig::decay: must be from 0 to below 1 (got 1)");
  CHECK(thrown_error([] { AveragedModel{torch::nn::ReLU{}}; }) ==
        "backend: averaging a model: it has no parameters; average a model of dense tensors");
  AveragedModel averaged{model};
  Stored const stored{model, averaged};
  torch::nn::Linear wide{3, 1};
  AveragedModel of_other{wide};
  check_contains(thrown_error([&] { (void)of_other.load_from(stored.checkpoint()); }),
                 "'weight' is {1, 2} Float there and {1, 3} Float in this model");
  check_contains(thrown_error([&] { (void)averaged.load_from(stored.checkpoint(), "model.safetensors"); }),
                 "it does not say of how many updates it is the average");
  auto const in_place = averaged.put_in_place();
  check_contains(thrown_error([&] { averaged.update(); }),
                 "AveragedModel::update: the model has the averaged weights instead of those that are trained; end the "
                 "block");
  check_contains(thrown_error([&] { (void)draft_of(model, averaged); }), "storing an AveragedModel: the model has");
  check_contains(thrown_error([&] { (void)averaged.put_in_place(); }), "AveragedModel::put_in_place: the model has");
}
