// SPDX-License-Identifier: Apache-2.0
// Batch normalisation over the batches of all workers.
#include <raytrain/backend/torch/sync_batch_norm.hpp>

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/backend/torch.hpp>
#include <raytrain/trainer.hpp>

#include "../support/thrown_error.hpp"
#include "others_stopped.hpp"
#include "stored_state.hpp"
#include "torch_run.hpp"

using namespace raytrain;
using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;

namespace {

using torch::nn::BatchNormOptions;

/// Two convolutions, or two linear layers, each of which a normalisation follows.
template <class Norm, class Layer>
struct NetImpl : torch::nn::Module {
  NetImpl(Layer in, Layer out, BatchNormOptions const& options)
      : first{register_module("first", std::move(in))},
        norm1{register_module("norm1", Norm{options})},
        second{register_module("second", std::move(out))},
        norm2{register_module("norm2", Norm{options})} {}
  auto forward(torch::Tensor const& x) -> torch::Tensor { return norm2(second(torch::tanh(norm1(first(x))))); }

  Layer first;
  Norm norm1;
  Layer second;
  Norm norm2;
};

/// What one step computes: outputs, gradients of inputs and parameters, buffers.
struct Step {
  torch::Tensor y;
  torch::Tensor of_x;
  Tensors of_parameters;
  Tensors buffers;
};

constexpr std::int64_t channels = 6;

auto options_of(bool is_affine, std::optional<double> momentum, bool is_tracked) -> BatchNormOptions {
  auto options = BatchNormOptions(channels).affine(is_affine).track_running_stats(is_tracked).eps(1e-3);
  options.momentum().reset();
  if (momentum) options.momentum(*momentum);
  return options;
}

/// Rows of this worker, each of which has numbers of its own around 3.
auto rows(std::int64_t first, std::int64_t count, std::vector<std::int64_t> shape) -> torch::Tensor {
  shape.insert(shape.begin(), 0);
  Tensors each{torch::empty(shape)};
  shape[0] = 1;
  for (auto row = first; row < first + count; ++row) {
    auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(row) + 1);
    each.push_back(3 + torch::randn(shape, generator));
  }
  return torch::cat(each);
}

template <class Model>
void fill(Model& model) {
  torch::NoGradGuard const no_grad;
  auto generator = at::detail::createCPUGenerator(std::uint64_t{99});
  for (auto& parameter : model.parameters()) parameter.normal_(0.2, 0.5, generator);
}

/// Two steps forward and backward of the part of each worker's loss, in doubles or floats.
template <class Model>
auto steps(Model& model, std::function<torch::Tensor(int)> const& input, double factor) -> std::vector<Step> {
  std::vector<Step> all;
  for (int number = 0; number < 2; ++number) {
    model.zero_grad();
    auto x = input(number).requires_grad_(true);
    auto const y = model.forward(x);
    auto const of_row = torch::cos(x.detach().flatten(1).sum(1, /*keepdim=*/true));
    ((y.flatten(1) * of_row).pow(3).sum() * factor).backward();
    Step step{y.detach().clone(), x.grad().clone(), {}, {}};
    for (auto const& parameter : model.parameters()) step.of_parameters.push_back(parameter.grad().clone());
    for (auto const& buffer : model.buffers()) step.buffers.push_back(buffer.clone());
    all.push_back(std::move(step));
  }
  return all;
}

void check_near(torch::Tensor const& left, torch::Tensor const& right) {
  REQUIRE(left.sizes() == right.sizes());
  if (left.numel() == 0) return;
  auto const scale = right.to(torch::kDouble).abs().max().template item<double>() + 1e-3;
  CHECK((left.to(torch::kDouble) - right.to(torch::kDouble)).abs().max().template item<double>() / scale < 1e-6);
}

struct Case {
  std::vector<std::int64_t> shape;    ///< Of a row.
  std::vector<std::int64_t> batches;  ///< Rows of each worker.
  bool is_affine = true;
  std::optional<double> momentum = 0.1;
  bool is_tracked = true;
};

/// One process with the joined batch, by LibTorch's `Norm`, against workers with their parts.
template <class Norm, class Layer>
void compare(Case const& setup, std::function<Layer(std::int64_t, std::int64_t)> const& layer) {
  auto const in = setup.shape[0];
  auto const options = options_of(setup.is_affine, setup.momentum, setup.is_tracked);
  std::int64_t total = 0;
  for (auto const batch : setup.batches) total += batch;
  auto const workers = static_cast<int>(setup.batches.size());
  NetImpl<Norm, Layer> joined{layer(in, channels), layer(channels, channels), options};
  joined.to(torch::kDouble);
  fill(joined);
  auto const expected = steps(
      joined, [&](int step) { return rows(1000 * step, total, setup.shape).to(torch::kDouble); }, 1.0 / workers);

  std::vector<std::vector<Step>> got(setup.batches.size());
  std::vector<torch::Tensor> evaluated(setup.batches.size());
  run_once({.workers = workers}, [&](TorchContext& ctx) {
    auto const rank = ctx.world_rank().value;
    auto model = ctx.prepare_model(
        std::make_shared<NetImpl<SyncBatchNorm, Layer>>(layer(in, channels), layer(channels, channels), options));
    model->to(torch::kDouble);
    fill(*model);
    auto net = ctx.prepare_model(model);
    std::int64_t begin = 0;
    for (std::size_t r = 0; r < rank; ++r) begin += setup.batches[r];
    got[rank] = steps(
        *net, [&](int step) { return rows(1000 * step + begin, setup.batches[rank], setup.shape).to(torch::kDouble); },
        1);
    net->eval();
    if (rank == 0)
      evaluated[0] = net->forward(rows(5, 3, setup.shape).to(torch::kDouble)).detach();  // nobody else does
  });

  for (std::size_t step = 0; step < 2; ++step) {
    Tensors outputs;
    Tensors of_inputs;
    for (auto const& each : got) {
      outputs.push_back(each[step].y);
      of_inputs.push_back(each[step].of_x);
      REQUIRE(each[step].of_parameters.size() == expected[step].of_parameters.size());
      for (std::size_t i = 0; i < each[step].of_parameters.size(); ++i) {
        check_near(each[step].of_parameters[i], expected[step].of_parameters[i]);
      }
      REQUIRE(each[step].buffers.size() == expected[step].buffers.size());
      for (std::size_t i = 0; i < each[step].buffers.size(); ++i) {
        check_near(each[step].buffers[i], expected[step].buffers[i]);
      }
      CHECK(same_bits(each[step].of_parameters, got[0][step].of_parameters));
      CHECK(same_bits(each[step].buffers, got[0][step].buffers));
    }
    check_near(torch::cat(outputs), expected[step].y);
    check_near(torch::cat(of_inputs) / workers, expected[step].of_x);
  }
  joined.eval();
  check_near(evaluated[0], joined.forward(rows(5, 3, setup.shape).to(torch::kDouble)));
}

auto linear(std::int64_t in, std::int64_t out) -> torch::nn::Linear { return torch::nn::Linear{in, out}; }
auto conv2d(std::int64_t in, std::int64_t out) -> torch::nn::Conv2d {
  return torch::nn::Conv2d{torch::nn::Conv2dOptions{in, out, 3}.padding(1)};
}
auto conv3d(std::int64_t in, std::int64_t out) -> torch::nn::Conv3d {
  return torch::nn::Conv3d{torch::nn::Conv3dOptions{in, out, 3}.padding(1)};
}

struct TwoNormsImpl : torch::nn::Module {
  SyncBatchNorm first = register_module("first", SyncBatchNorm{3});
  SyncBatchNorm second = register_module("second", SyncBatchNorm{3});
  torch::Tensor scale = register_parameter("scale", torch::ones({3}));
};
TORCH_MODULE(TwoNorms);

/// What each of two ranks gets from `train`.
auto errors_of(std::function<void(TorchContext&, TwoNorms&)> const& train) -> std::vector<std::string> {
  std::vector<std::string> errors(2);
  run_once({.workers = 2}, [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return TwoNorms{}; });
    errors[ctx.world_rank().value] = thrown_error([&] { train(ctx, model); });
  });
  CHECK(errors[0] == errors[1]);
  return errors;
}

/// Parameters and buffers of rank 0, at the end of a training up to `epochs`.
auto trained(std::filesystem::path const& folder, int epochs) -> Tensors {
  Tensors state;
  run_in(folder, {2, 5, {{"train", small_images(96)}}}, [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] {
      return torch::nn::Sequential{torch::nn::Linear{64, 8}, SyncBatchNorm{8}, torch::nn::Linear{8, 10}};
    });
    auto optimizer = ctx.prepare_optimizer<torch::optim::Adam>(model, {1e-2});
    for (auto epoch = ctx.restore(model, optimizer); epoch < epochs; ++epoch) {
      for (auto const& batch : ctx.dataset_shard("train").batches({.batch_size = 4, .epoch = epoch})) {
        auto const is_last = ctx.accumulate(3);
        auto const images = batch["image"].to(torch::kFloat).flatten(1) / 255;
        torch::nn::functional::cross_entropy(model->forward(images), batch["label"].to(torch::kLong)).backward();
        if (!is_last) continue;
        optimizer.step();
        optimizer.zero_grad();
      }
      ctx.report(Epoch{epoch, 1.0}, save(model, optimizer));
    }
    if (ctx.world_rank() != Rank{0}) return;
    state = copies(model->parameters());
    for (auto const& buffer : copies(model->buffers())) state.push_back(buffer);
  });
  return state;
}

}  // namespace

TEST_CASE("workers normalise as one process with the joined batch: outputs, gradients and running statistics") {
  for (auto const& batches :
       std::vector<std::vector<std::int64_t>>{{5}, {4, 4}, {3, 6}, {2, 5, 4}, {4, 1, 3, 2}, {4, 0, 5}}) {
    CAPTURE(batches.size());
    compare<torch::nn::BatchNorm1d, torch::nn::Linear>({.shape = {7}, .batches = batches}, linear);
    compare<torch::nn::BatchNorm2d, torch::nn::Conv2d>({.shape = {2, 5, 4}, .batches = batches}, conv2d);
  }
  compare<torch::nn::BatchNorm3d, torch::nn::Conv3d>({.shape = {2, 2, 3, 3}, .batches = {2, 3}}, conv3d);
}

TEST_CASE("so they do without weights, with the mean of all batches as running statistics, and without these") {
  for (auto const& batches : std::vector<std::vector<std::int64_t>>{{5}, {3, 6}, {2, 3, 4}}) {
    for (auto const is_affine : {false, true}) {
      for (auto const momentum : {std::optional<double>{}, std::optional{0.3}}) {
        for (auto const is_tracked : {false, true}) {
          compare<torch::nn::BatchNorm2d, torch::nn::Conv2d>({.shape = {2, 3, 4},
                                                              .batches = batches,
                                                              .is_affine = is_affine,
                                                              .momentum = momentum,
                                                              .is_tracked = is_tracked},
                                                             conv2d);
        }
      }
    }
  }
}

TEST_CASE("a rank that leaves a layer out, forward or backward, is an error on all of them that names the layer") {
  auto const x = torch::rand({4, 3});
  auto const is_1 = [](TorchContext& ctx) { return ctx.world_rank() == Rank{1}; };
  auto const forward = errors_of([&](TorchContext& ctx, TwoNorms& model) {
    if (!is_1(ctx)) (void)model->first(x);
    (void)model->second(x);
  });
  CHECK(
      forward[0] ==
      "rank_mismatch: collective call: rank 0 calls all_gather(7 x float64) for forward 1 of SyncBatchNorm 1 of model "
      "1 (after 0 samples of epoch 0), but rank 1 calls all_gather(7 x float64) for forward 1 of SyncBatchNorm 2 of "
      "model 1 (after 0 samples of epoch 0); make every rank run the same layers forward and backward, in the same "
      "order, in train mode on all or none");
  auto const backward = errors_of([&](TorchContext& ctx, TwoNorms& model) {
    auto y = model->first(x * model->scale);
    (is_1(ctx) ? x * model->scale : y).sum().backward();
  });
  check_contains(backward[0], "rank 0 calls all_reduce(6 x float64, sum) for forward 1 of SyncBatchNorm 1 of model 1");
  check_contains(backward[0], "for backward 1 of model 1");
  auto const eval = errors_of([&](TorchContext& ctx, TwoNorms& model) {
    if (is_1(ctx)) model->eval();
    model->first(x * model->scale).sum().backward();
  });
  check_contains(eval[0], "in train mode on all or none");
  auto const twice = errors_of([&](TorchContext& ctx, TwoNorms& model) {
    if (is_1(ctx)) (void)model->first(x);
    model->first(x).sum().backward();
  });
  check_contains(twice[0], "rank 1 calls all_gather(7 x float64) for forward 2 of SyncBatchNorm 1");
}

TEST_CASE("what has no joined variance or gradient is refused") {
  auto const alone = errors_of([](TorchContext& ctx, TwoNorms& model) {
    (void)model->first(torch::ones({ctx.world_rank() == Rank{0} ? 1 : 0, 3}));
  });
  CHECK(
      alone[0] ==
      "invalid_call: SyncBatchNorm::forward: a channel has 1 values in the batches of all workers together; give it at "
      "least 2, which have a variance");
  auto const of_shape = errors_of([](TorchContext&, TwoNorms& model) { (void)model->first(torch::ones({4, 2})); });
  CHECK(of_shape[0] ==
        "invalid_call: SyncBatchNorm::forward: takes floating-point numbers of N x 3 or N x 3 x ... (got Float of [4, "
        "2]); "
        "give it as many features as the input has channels");
  check_contains(thrown_error([] {
                   (void)SyncBatchNorm { 3 } -> forward(torch::ones({3}));
                 }),
                 "(got Float of [3])");
  auto const twice = errors_of([](TorchContext&, TwoNorms& model) {
    auto const x = torch::rand({4, 3}).requires_grad_(true);
    (void)torch::autograd::grad({model->first(x).pow(3).sum()}, {x}, {}, true, /*create_graph=*/true);
  });
  check_contains(twice[0], "the backward of a SyncBatchNorm: is called with create_graph");
}

TEST_CASE("with virtual shards a model with such a layer is refused, and one without is not") {
  for (int const workers : {1, 2}) {
    TemporaryFolder const folder;
    Trainer<TorchBackend> trainer{[](TorchContext& ctx) {
                                    (void)ctx.prepare_model([] { return torch::nn::BatchNorm1d{3}; });
                                    (void)ctx.prepare_model([] { return TwoNorms{}; });
                                  },
                                  {.scaling = {.num_workers = workers, .virtual_shards = 4},
                                   .run = {.name = "run", .storage_path = folder.path(), .handle_signals = false}}};
    CHECK_THROWS_WITH_AS(trainer.fit(),
                         doctest::Contains("preparing a model: it has a SyncBatchNorm, which normalises"),
                         TrainingFailed);
  }
}

TEST_CASE("alone, in eval mode and when the training is over it has the bits of a BatchNorm") {
  auto const x = torch::rand({4, 3, 5});
  auto const check = [&](SyncBatchNorm& sync) {
    torch::nn::BatchNorm1d plain{3};
    for (auto const is_training : {true, false}) {
      sync->train(is_training);
      plain->train(is_training);
      CHECK(torch::equal(sync(x), plain(x)));
      CHECK(same_bits(sync->buffers(), plain->buffers()));
    }
  };
  SyncBatchNorm unprepared{3};
  check(unprepared);
  SyncBatchNorm kept{nullptr};
  torch::Tensor loss;
  run_once({.workers = 2}, [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return SyncBatchNorm{3}; });
    auto const y = model->forward(x);
    if (ctx.world_rank() == Rank{1}) {
      kept = model;
      loss = y.pow(3).sum();
    }
  });
  check_contains(thrown_error([&] { loss.backward(); }), "is called when the training function has returned");
  kept->reset_parameters();
  check(kept);
  run_once({.workers = 1}, [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return SyncBatchNorm{3}; });
    check(model);
  });
}

TEST_CASE("its state is that of a BatchNorm, and loads as one's, and the other way about") {
  torch::nn::Sequential plain{torch::nn::Conv2d{torch::nn::Conv2dOptions{2, 3, 3}}, torch::nn::BatchNorm2d{3}};
  torch::nn::Sequential sync{torch::nn::Conv2d{torch::nn::Conv2dOptions{2, 3, 3}}, SyncBatchNorm{3}};
  auto const x = torch::rand({4, 2, 5, 5});
  auto const same = [&] {
    return same_bits(plain->parameters(), sync->parameters()) && same_bits(plain->buffers(), sync->buffers());
  };
  (void)plain->forward(x);
  CHECK_FALSE(same());
  Stored const of_plain{plain};
  load(of_plain.checkpoint(), sync);
  CHECK(same());
  (void)sync->forward(x);
  CHECK_FALSE(same());
  Stored const of_sync{sync};
  load(of_sync.checkpoint(), plain);
  CHECK(same());
  std::ostringstream text;
  text << *sync;
  check_contains(text.str(), "raytrain::SyncBatchNorm(3, eps=1e-05, momentum=0.1, affine=1, track_running_stats=1)");
}

TEST_CASE("a training goes on after an interruption to the very bits of one that had none, with windows of batches") {
  TemporaryFolder const whole;
  TemporaryFolder const parts;
  auto const expected = trained(whole.path(), 4);
  CHECK_FALSE(same_bits(trained(parts.path(), 2), expected));
  CHECK(same_bits(trained(parts.path(), 4), expected));
}

TEST_CASE("of 16 bits it computes in 32, and gives 16 bits") {
  auto const x = rows(0, 8, {3, 2});
  auto const short_x = x.to(torch::kBFloat16);
  torch::nn::BatchNorm1d joined{3};
  auto joined_x = short_x.to(torch::kFloat).requires_grad_(true);
  auto const expected = joined(joined_x);
  expected.pow(3).sum().backward();
  run_once({.workers = 2}, [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return SyncBatchNorm{3}; });
    auto const begin = 4 * static_cast<std::int64_t>(ctx.world_rank().value);
    auto own = short_x.narrow(0, begin, 4).clone().requires_grad_(true);
    auto const y = [&] {
      auto const autocast = ctx.autocast(Precision::bf16);
      return model->forward(own);
    }();
    CHECK((y.scalar_type() == torch::kBFloat16));
    CHECK(torch::allclose(y.to(torch::kFloat), expected.narrow(0, begin, 4), 1e-2, 1e-2));
    y.to(torch::kFloat).pow(3).sum().backward();
    CHECK((own.grad().scalar_type() == torch::kBFloat16));
    CHECK(torch::allclose(own.grad().to(torch::kFloat), joined_x.grad().narrow(0, begin, 4), 5e-2, 5e-2));
    CHECK(torch::allclose(model->running_var, joined->running_var, 1e-6, 1e-6));
  });
}

TEST_CASE("a mean that is large against the deviation loses no more than in one process") {
  auto const x = 1000 + rows(0, 12, {3, 40});
  torch::nn::BatchNorm1d joined{3};
  auto const expected = joined(x.to(torch::kDouble).to(torch::kFloat));
  run_once({.workers = 3}, [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return SyncBatchNorm{3}; });
    auto const begin = 4 * static_cast<std::int64_t>(ctx.world_rank().value);
    CHECK(torch::allclose(model->forward(x.narrow(0, begin, 4)), expected.narrow(0, begin, 4), 1e-4, 2e-4));
    CHECK(torch::allclose(model->running_var, joined->running_var, 1e-6, 0));
  });
}

TEST_CASE("in a window of accumulated batches each joined batch has moments of its own") {
  auto const x = rows(0, 16, {3}).to(torch::kDouble);
  auto const weight_of = torch::linspace(1, 2, 8, torch::kDouble).unsqueeze(1);
  torch::nn::BatchNorm1d joined{3};
  joined->to(torch::kDouble);
  for (int batch = 0; batch < 2; ++batch) {
    ((joined(x.narrow(0, 8 * batch, 8)) * weight_of).pow(3).sum() / 4).backward();  // 2 workers, 2 batches
  }
  run_once({.workers = 2}, [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return SyncBatchNorm{3}; });
    model->to(torch::kDouble);
    model = ctx.prepare_model(model);
    std::int64_t const begin = 4 * ctx.world_rank().value;
    for (int batch = 0; batch < 2; ++batch) {
      CHECK(ctx.accumulate(2) == (batch == 1));
      (model(x.narrow(0, 8 * batch + begin, 4)) * weight_of.narrow(0, begin, 4)).pow(3).sum().backward();
    }
    check_near(model->weight.grad(), joined->weight.grad());
    check_near(model->bias.grad(), joined->bias.grad());
    check_near(model->running_mean, joined->running_mean);
    check_near(model->running_var, joined->running_var);
  });
}

TEST_CASE("a worker that fails ends the others within the layer, and its own text is reported") {
  expect_others_stopped([](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return SyncBatchNorm{3}; });
    auto const x = torch::rand({4, 3});
    model(x).sum().backward();
    return [model, x]() mutable { (void)model(x); };
  });
}
