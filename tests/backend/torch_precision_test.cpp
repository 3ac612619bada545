// SPDX-License-Identifier: Apache-2.0
// Trainings in 16 bits: what computes in them, how losses are scaled, and which steps are skipped.
#include <raytrain/backend/torch/autocast.hpp>
#include <raytrain/backend/torch/grad_scaler.hpp>

#include <torch/torch.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/backend/torch.hpp>
#include <raytrain/core/metrics.hpp>

#include "../support/thrown_error.hpp"
#include "stored_state.hpp"
#include "torch_run.hpp"

using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;

namespace {

using namespace raytrain;

constexpr auto infinity = std::numeric_limits<float>::infinity();
constexpr auto not_a_number = std::numeric_limits<float>::quiet_NaN();

/// A model of one parameter, whose gradient a test sets.
struct Scalar {
  torch::nn::Linear model{torch::nn::LinearOptions{1, 1}.bias(false)};
  torch::optim::SGD optimizer{model->parameters(), 1.0};

  Scalar() { set(0); }
  void set(float value) {
    torch::NoGradGuard const no_grad;
    model->weight.fill_(value);
  }
  void set_gradient(float value) { model->weight.mutable_grad() = torch::full({1, 1}, value); }
  [[nodiscard]] auto value() const -> float { return model->weight.item<float>(); }
};

/// The scale behind each step, of the gradients given.
auto scales_of(Precision precision, GradScalerConfig const& config, std::vector<float> const& gradients)
    -> std::vector<double> {
  Scalar scalar;
  GradScaler scaler{precision, config};
  std::vector<double> scales;
  for (auto const gradient : gradients) {
    scalar.set_gradient(gradient);
    scaler.step(scalar.optimizer);
    scaler.update();
    scales.push_back(scaler.loss_scale());
  }
  return scales;
}

auto type_of(at::Tensor const& tensor) -> std::string { return toString(tensor.scalar_type()); }
auto products_type() -> std::string { return type_of(torch::mm(torch::ones({2, 2}), torch::ones({2, 2}))); }

struct Training {
  Precision precision = Precision::fp32;
  double init_scale = 65'536;
  int epochs = 3;
  bool is_sharded = false;
  int infinite_epoch = -1;  ///< In whose first step the loss of rank 1 is infinite.
  bool has_scaler = true;
};

struct Reached {
  std::vector<Tensors> parameters{};  ///< By rank.
  std::vector<double> losses{};       ///< Of rank 0, by epoch.
  Result result{};
};

/// Trains a network of two layers by two workers, and goes on with what lies in `folder`.
auto trained(std::filesystem::path const& folder, Training const& training) -> Reached {
  Reached reached{.parameters = std::vector<Tensors>(2)};
  auto const train = [&](TorchContext& ctx, auto& model, torch::optim::Optimizer& optimizer, auto epoch,
                         GradScaler& scaler, auto const& save_all) {
    auto shard = ctx.dataset_shard("train");
    for (; epoch < training.epochs; ++epoch) {
      auto sum = 0.0;
      auto is_first = true;
      for (auto const& batch : shard.batches({.batch_size = 16, .epoch = epoch})) {
        optimizer.zero_grad();
        auto loss = [&] {
          auto const autocast = ctx.autocast(training.precision);
          auto const images = batch["image"].to(torch::kFloat).flatten(1) / 255;
          return torch::nn::functional::cross_entropy(model->forward(images), batch["label"].to(torch::kLong));
        }();
        sum += loss.template item<double>();
        if (std::exchange(is_first, false) && epoch == training.infinite_epoch && ctx.world_rank() == Rank{1}) {
          loss = loss * infinity;
        }
        if (!training.has_scaler) {
          loss.backward();
          optimizer.step();
          continue;
        }
        scaler.scale(loss).backward();
        scaler.step(optimizer);
        scaler.update();
      }
      if (ctx.world_rank() == Rank{0}) reached.losses.push_back(sum);
      ctx.report(Epoch{epoch, sum}, save_all());
    }
    reached.parameters[ctx.world_rank().value] = copies(model->parameters());
  };
  reached.result = run_in(folder, {2, 5, {{"train", small_images(256)}}}, [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] {
      return torch::nn::Sequential{torch::nn::Linear{64, 32}, torch::nn::ReLU{}, torch::nn::Linear{32, 10}};
    });
    GradScaler scaler{training.precision, {.init_scale = training.init_scale, .growth_interval = 5}};
    if (training.is_sharded) {
      auto optimizer = ctx.prepare_optimizer<torch::optim::Adam>(model, {1e-2});
      train(ctx, model, optimizer, ctx.restore(model, optimizer, scaler), scaler,
            [&] { return save(model, optimizer, scaler); });
    } else {
      torch::optim::Adam optimizer{model->parameters(), 1e-2};
      train(ctx, model, optimizer, ctx.restore(model, optimizer, scaler), scaler,
            [&] { return save(model, optimizer, scaler); });
    }
  });
  return reached;
}

auto trained(Training const& training) -> Reached {
  TemporaryFolder const folder;
  return trained(folder.path(), training);
}

/// Whether this LibTorch has autocast to fp16 on the CPU, which is not so of 1.13.
auto has_fp16() -> bool {
  try {
    Autocast const autocast{Precision::fp16, torch::kCPU};
    return true;
  } catch (Error const&) {
    return false;
  }
}

/// A directory with this as its grad_scaler.json.
auto with_scaler_file(std::string_view content) -> Stored {
  CheckpointDraft draft;
  draft.add("grad_scaler.json", content);
  return Stored{draft};
}

}  // namespace

TEST_CASE("autocast lets matrix products compute in bf16 and losses in float, and gives back what was before") {
  CHECK(products_type() == "Float");
  {
    Autocast const autocast{Precision::bf16, torch::kCPU};
    CHECK(products_type() == "BFloat16");
    auto const product = torch::mm(torch::ones({2, 2}), torch::ones({2, 2}));
    CHECK(type_of(torch::nll_loss(torch::log_softmax(product, 1), torch::zeros({2}, torch::kLong))) == "Float");
    {
      Autocast const exact{Precision::fp32, torch::kCPU};
      CHECK(products_type() == "Float");
    }
    CHECK(products_type() == "BFloat16");
  }
  CHECK(products_type() == "Float");
}

TEST_CASE("autocast computes with the parameters of each step, not with those that it has converted before") {
  auto const weight = torch::ones({1, 1}).requires_grad_();
  for (auto const value : {1.0F, 2.0F}) {
    {
      torch::NoGradGuard const no_grad;
      weight.fill_(value);
    }
    Autocast const autocast{Precision::bf16, torch::kCPU};
    CHECK(torch::mm(torch::ones({1, 1}), weight).item<float>() == value);
  }
}

TEST_CASE("autocast computes with the parameters of each step within one guard, and within that of a whole training") {
  auto const weight = torch::ones({1, 1}).requires_grad_();
  for (auto const outer : {Precision::fp32, Precision::bf16}) {
    Autocast const whole{outer, torch::kCPU};
    for (auto const value : {1.0F, 2.0F}) {
      {
        torch::NoGradGuard const no_grad;
        weight.fill_(value);
      }
      CHECK(torch::mm(torch::ones({1, 1}), weight).item<float>() == value);
      Autocast const step{Precision::bf16, torch::kCPU};
      CHECK(torch::mm(torch::ones({1, 1}), weight).item<float>() == value);
    }
  }
}

TEST_CASE("a forward without gradients takes none from one behind it within the same guard") {
  auto const weight = torch::ones({1, 1}).requires_grad_();
  Autocast const autocast{Precision::bf16, torch::kCPU};
  {
    torch::NoGradGuard const no_grad;
    (void)torch::mm(torch::ones({1, 1}), weight);
  }
  torch::mm(torch::ones({1, 1}), weight).sum().backward();
  CHECK(weight.grad().defined());
}

TEST_CASE("fp16 is done, or refused by name where LibTorch cannot do it on the CPU") {
  if (has_fp16()) {
    Autocast const autocast{Precision::fp16, torch::kCPU};
    CHECK(products_type() == "Half");
    return;
  }
  auto const text = thrown_error([] { Autocast const autocast{Precision::fp16, torch::kCPU}; });
  check_contains(text, "invalid_config: Precision::fp16 on cpu: LibTorch 1.13 refuses it");
  check_contains(text, "use Precision::bf16, or a newer LibTorch");
  CHECK(products_type() == "Float");
}

TEST_CASE("a precision has a name, and another name lists those that there are") {
  for (auto const precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    CHECK(precision_named(to_string(precision)) == precision);
  }
  check_contains(thrown_error([] { return precision_named("half"); }), "must be fp32, bf16 or fp16 (got 'half')");
}

TEST_CASE("a precision without instructions of the processor is told of, and only such a one") {
  check_contains(precision_advice(Precision::bf16, false).value_or(""), "no instructions for bf16: LibTorch emulates");
  CHECK_FALSE(precision_advice(Precision::bf16, true).has_value());
  CHECK_FALSE(precision_advice(Precision::fp16, std::nullopt).has_value());
  CHECK(computes_in(Precision::fp32) == true);
}

TEST_CASE("a run warns once of a precision without instructions of the processor, and of no other") {
  auto const result = run_once({}, [](TorchContext& ctx) {
    for (auto const precision : {Precision::bf16, Precision::fp32, Precision::bf16}) {
      auto const guard = ctx.autocast(precision);
    }
  });
  auto const lacks = computes_in(Precision::bf16) == false;
  CHECK(warnings_with(result, "no instructions for bf16: LibTorch emulates") == (lacks ? 1 : 0));
  CHECK(warnings_with(result, "no instructions for") == (lacks ? 1 : 0));
}

TEST_CASE("the scale halves with a step that is skipped, and doubles after so many that are not") {
  GradScalerConfig const config{.init_scale = 8, .growth_interval = 2};
  CHECK(scales_of(Precision::fp16, config, {1, 1, 1, infinity, 1, not_a_number, 1, 1, -infinity}) ==
        std::vector<double>{8, 16, 16, 8, 8, 4, 4, 8, 4});
  CHECK(scales_of(Precision::bf16, config, {1, 1, infinity}) == std::vector<double>{1, 1, 1});
}

TEST_CASE("the scale stays a number that losses can be multiplied by, however long it grows or is reduced") {
  std::vector<float> const all_finite(400, 1.0F);
  std::vector<float> const all_infinite(400, infinity);
  auto const most = scales_of(Precision::fp16, {.growth_interval = 1}, all_finite).back();
  auto const least = scales_of(Precision::fp16, {.max_skipped_in_a_row = 0}, all_infinite).back();
  CHECK(std::isfinite(static_cast<float>(most)));
  CHECK(1 / static_cast<float>(least) < infinity);
  CHECK(least > 0);
}

TEST_CASE("a step with a gradient that is not finite changes no parameter, and one of the unscaled gradient is taken") {
  Scalar scalar;
  GradScaler scaler{Precision::fp16, {.init_scale = 4}};
  for (auto const gradient : {infinity, not_a_number}) {
    scalar.set_gradient(gradient);
    CHECK_FALSE(scaler.step(scalar.optimizer));
    scaler.update();
    CHECK(scalar.value() == 0.0F);
  }
  CHECK(scaler.skipped_steps() == 2);
  CHECK(scaler.loss_scale() == 1.0);
  scalar.set_gradient(3);
  CHECK(scaler.step(scalar.optimizer));
  CHECK(scalar.value() == -3.0F);
}

TEST_CASE("the gradient of a parameter that is listed twice is unscaled once") {
  Scalar scalar;
  torch::optim::SGD optimizer{{scalar.model->weight, scalar.model->weight}, 1.0};
  GradScaler scaler{Precision::fp16, {.init_scale = 4}};
  scaler.scale((scalar.model->weight * 8).sum()).backward();
  scaler.unscale(optimizer);
  CHECK(scalar.model->weight.grad().item<float>() == 8.0F);
}

TEST_CASE("unscaled gradients can be clipped before the step, and are not unscaled again by it") {
  Scalar scalar;
  GradScaler scaler{Precision::fp16, {.init_scale = 4}};
  auto const loss = (scalar.model->weight * 8).sum();
  scaler.scale(loss).backward();
  CHECK(scalar.model->weight.grad().item<float>() == 32.0F);
  scaler.unscale(scalar.optimizer);
  CHECK(scalar.model->weight.grad().item<float>() == 8.0F);
  torch::nn::utils::clip_grad_norm_(scalar.model->parameters(), 2);
  scaler.step(scalar.optimizer);
  CHECK(scalar.value() == doctest::Approx(-2));
}

TEST_CASE("a step that one of two optimizers skips is one skipped step, and the other takes its own") {
  Scalar first;
  Scalar second;
  GradScaler scaler{Precision::fp32};
  first.set_gradient(infinity);
  second.set_gradient(1);
  CHECK_FALSE(scaler.step(first.optimizer));
  CHECK(scaler.step(second.optimizer));
  scaler.update();
  CHECK(scaler.skipped_steps() == 1);
}

TEST_CASE("a scaler's calls in another order are refused, naming what is to be called") {
  Scalar scalar;
  GradScaler scaler{Precision::fp16};
  check_contains(thrown_error([&] { scaler.update(); }), "invalid_call: GradScaler::update: no optimizer was stepped");
  scaler.unscale(scalar.optimizer);
  check_contains(thrown_error([&] { scaler.unscale(scalar.optimizer); }), "GradScaler::unscale: this optimizer was");
  check_contains(thrown_error([&] { scaler.update(); }), "call step(optimizer) before");
  scaler.step(scalar.optimizer);
  check_contains(thrown_error([&] { scaler.step(scalar.optimizer); }), "call update() behind each step()");
  check_contains(thrown_error([&] { scaler.unscale(scalar.optimizer); }), "call update() behind each step()");
}

TEST_CASE("more skipped steps in a row than are allowed end the run, which is not tried again, and fewer do not") {
  GradScalerConfig const config{.max_skipped_in_a_row = 2};
  CHECK(scales_of(Precision::bf16, config, {not_a_number, not_a_number, 1, not_a_number, not_a_number}).size() == 5);
  auto const text = thrown_error([&] {
    return scales_of(Precision::bf16, config, {not_a_number, not_a_number, not_a_number});
  });
  check_contains(text,
                 "not_retryable: GradScaler::update: 3 steps in a row were skipped, since their gradients were not");
  check_contains(text, "(loss scale 1, bf16)");
}

TEST_CASE("settings that a scaler cannot work with are refused by name") {
  auto const refused = [](GradScalerConfig const& config) {
    return thrown_error([&] { GradScaler const scaler{Precision::fp16, config}; });
  };
  check_contains(refused({.init_scale = 0}), "GradScalerConfig::init_scale: must be finite and above 0 (got 0)");
  check_contains(refused({.init_scale = not_a_number}), "init_scale");
  check_contains(refused({.growth_factor = 0.5}), "growth_factor: must be finite and at least 1 (got 0.5)");
  check_contains(refused({.backoff_factor = 0}), "backoff_factor: must be above 0 and at most 1 (got 0)");
  check_contains(refused({.growth_interval = 0}), "growth_interval: must be at least 1 (got 0)");
  check_contains(refused({.max_skipped_in_a_row = -1}), "max_skipped_in_a_row: must be at least 0 (got -1)");
}

TEST_CASE("workers that compute in bf16 have the same parameters, which come close to those of fp32") {
  auto const exact = trained({.epochs = 6});
  auto const half = trained({.precision = Precision::bf16, .epochs = 6});
  CHECK(same_bits(half.parameters[0], half.parameters[1]));
  CHECK_FALSE(same_bits(half.parameters[0], exact.parameters[0]));
  for (auto const& parameter : half.parameters[0]) CHECK(type_of(parameter) == "Float");
  CHECK(half.losses.back() < 0.95 * half.losses.front());
  CHECK(half.losses.back() == doctest::Approx(exact.losses.back()).epsilon(0.1));
}

TEST_CASE("a loss that is scaled by a power of two trains the bits of one that is not") {
  Scalar plain;
  Scalar scaled;
  GradScaler scaler{Precision::fp16, {.init_scale = 1024}};
  for (auto i = 0; i < 5; ++i) {
    for (auto* const each : {&plain, &scaled}) each->optimizer.zero_grad();
    (torch::exp(plain.model->weight) * 0.3).sum().backward();
    plain.optimizer.step();
    scaler.scale((torch::exp(scaled.model->weight) * 0.3).sum()).backward();
    scaler.step(scaled.optimizer);
    scaler.update();
  }
  CHECK(plain.value() == scaled.value());
  CHECK(plain.value() < 0);
}

TEST_CASE("workers that compute in fp16 with a scaler have the same parameters, and learn") {
  if (!has_fp16()) return;  // the case above tells of it
  auto const reached = trained({.precision = Precision::fp16, .epochs = 6});
  CHECK(same_bits(reached.parameters[0], reached.parameters[1]));
  CHECK(reached.losses.back() < 0.95 * reached.losses.front());
}

TEST_CASE("a scaler that skips nothing trains the bits of a training without one, with both kinds of optimizer") {
  auto const without = trained({.has_scaler = false}).parameters;
  CHECK(same_bits(trained(Training{}).parameters[0], without[0]));
  CHECK(same_bits(trained({.is_sharded = true}).parameters[0], without[0]));
}

TEST_CASE("a gradient of one worker that is not finite lets all workers skip the step, and reports count it") {
  for (auto const is_sharded : {false, true}) {
    CAPTURE(is_sharded);
    auto const reached = trained({.is_sharded = is_sharded, .infinite_epoch = 1});
    CHECK(same_bits(reached.parameters[0], reached.parameters[1]));
    for (auto const& parameter : reached.parameters[0]) CHECK(torch::isfinite(parameter).all().item<bool>());
    std::vector<double> skipped;
    for (auto const& report : reached.result.history) {
      skipped.push_back(report.metrics.number("skipped_steps").value_or(-1));
      CHECK(report.metrics.number("loss_scale") == 1.0);
    }
    CHECK(skipped == std::vector<double>{0, 1, 1});
  }
}

TEST_CASE("a training that goes on has the scale and the counts that it had, and ends with the same bits") {
  auto const precision = has_fp16() ? Precision::fp16 : Precision::bf16;
  TemporaryFolder const folder;
  (void)trained(folder.path(), {.precision = precision, .init_scale = 64, .epochs = 2, .infinite_epoch = 0});
  auto const resumed = trained(folder.path(), {.precision = precision, .init_scale = 64, .epochs = 4});
  auto const whole = trained({.precision = precision, .init_scale = 64, .epochs = 4, .infinite_epoch = 0});
  CHECK(same_bits(resumed.parameters[0], whole.parameters[0]));
  for (auto const* const metric : {"skipped_steps", "loss_scale"}) {
    CHECK(resumed.result.metrics.number(metric) == whole.result.metrics.number(metric));
  }
  CHECK(whole.result.metrics.number("skipped_steps") == 1.0);
}

TEST_CASE("a scaler goes on from its file, with its own scale where the precision is another one") {
  Scalar scalar;
  GradScaler saved{Precision::fp16, {.init_scale = 8, .growth_interval = 3}};
  for (auto const gradient : {infinity, 1.0F, 1.0F}) {
    scalar.set_gradient(gradient);
    saved.step(scalar.optimizer);
    saved.update();
  }
  CheckpointDraft draft;
  saved.add_to(draft);
  Stored const stored{draft};

  GradScaler again{Precision::fp16, {.init_scale = 2, .growth_interval = 3}};
  CHECK(again.load_from(stored.checkpoint()).empty());
  CHECK(again.loss_scale() == 4.0);
  CHECK(again.skipped_steps() == 1);
  again.step(scalar.optimizer);
  again.update();  // the third one that is not skipped
  CHECK(again.loss_scale() == 8.0);

  GradScaler other{Precision::bf16};
  CHECK(other.load_from(stored.checkpoint()) == "the training goes on in bf16; its checkpoint's was in fp16");
  CHECK(other.loss_scale() == 1.0);
  CHECK(other.skipped_steps() == 1);
}

TEST_CASE("a file that no scaler has written is refused by its name") {
  auto const refused = [](std::string_view content) {
    auto const stored = with_scaler_file(content);
    return thrown_error([&] {
      GradScaler scaler{Precision::fp16};
      return scaler.load_from(stored.checkpoint());
    });
  };
  check_contains(refused("{"), "grad_scaler.json");
  check_contains(
      refused(R"({"precision": "fp16", "scale": 0, "clean_steps": 0, "skipped_steps": 0, "skipped_in_a_row": 0})"),
      "it holds a scale or a count that a GradScaler cannot have");
  check_contains(
      refused(R"({"precision": "fp16", "scale": 2, "clean_steps": -1, "skipped_steps": 0, "skipped_in_a_row": 0})"),
      "grad_scaler.json");
}
