// SPDX-License-Identifier: Apache-2.0
// Gradients that are exchanged in buckets, by what the program gives for that, and in 16 bits.
#include <raytrain/backend/torch/gradient_exchange.hpp>
#include <raytrain/backend/torch/model_options.hpp>

#include <torch/torch.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/backend/torch.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/core/error.hpp>

#include "../support/thrown_error.hpp"
#include "torch_run.hpp"

using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;

namespace {

using namespace raytrain;

constexpr auto infinity = std::numeric_limits<float>::infinity();
constexpr auto not_a_number = std::numeric_limits<float>::quiet_NaN();

/// One weight, whose gradient is the input.
struct CopyImpl : torch::nn::Module {
  explicit CopyImpl(std::int64_t size = 1000) : w{register_parameter("w", torch::zeros({size}))} {}
  auto forward(torch::Tensor const& x) -> torch::Tensor { return (w * x).sum(); }
  torch::Tensor w;
};
TORCH_MODULE(Copy);

/// Parameters of both types, one without elements, one that no rank uses, and one that rank 1 alone uses.
struct SeveralImpl : torch::nn::Module {
  torch::Tensor a = register_parameter("a", torch::full({3, 5}, 0.5));
  torch::Tensor b = register_parameter("b", torch::full({40}, 2.0, torch::kDouble));
  torch::Tensor none = register_parameter("none", torch::zeros({0}));
  torch::Tensor c = register_parameter("c", torch::full({17}, 3.0));
  torch::Tensor unused = register_parameter("unused", torch::zeros({2}));
  torch::Tensor of_one = register_parameter("of_one", torch::full({33}, 0.25));
  torch::Tensor last = register_parameter("last", torch::zeros({0}));

  auto forward(std::uint32_t rank) -> torch::Tensor {
    auto const x = 1.0 / 3 + rank;
    auto loss = (a * a * x).sum() + (b * x).sin().sum() + none.sum() + (c * x).cos().sum() + last.sum();
    return rank == 1 ? loss + (of_one * of_one * x).sum() : loss;
  }
};
TORCH_MODULE(Several);

/// Averages as it is done without an exchange, and shows each bucket.
class Watched : public GradientExchange {
 public:
  using Look = std::function<void(GradientBucket const&)>;

  explicit Watched(Look look = {}) : look_{std::move(look)} {}

  void exchange(GradientBucket const& bucket, Collective& collective) override {
    if (look_) look_(bucket);
    auto const size = static_cast<std::size_t>(bucket.values.numel());
    if (bucket.values.scalar_type() == torch::kDouble) {
      collective.all_reduce(std::span{bucket.values.data_ptr<double>(), size}, ReduceOp::average);
    } else {
      collective.all_reduce(std::span{bucket.values.data_ptr<float>(), size}, ReduceOp::average);
    }
  }

 private:
  Look look_;
};

auto gradients_of(torch::nn::Module const& module) -> Tensors {
  Tensors gradients;
  for (auto const& parameter : module.parameters()) {
    gradients.push_back(parameter.grad().defined() ? parameter.grad().clone() : torch::full({1}, -1.0));
  }
  return gradients;
}

/// What each rank has of 1000 numbers around 0, the first of which are not finite where these are given.
auto input_of(std::uint32_t rank, std::vector<float> const& first = {}) -> torch::Tensor {
  auto generator = at::detail::createCPUGenerator(5 + rank);
  auto x = torch::randn({1000}, generator) * torch::pow(10.0, torch::arange(1000).remainder(9) - 6);
  for (std::size_t i = 0; i < first.size(); ++i) x[static_cast<std::int64_t>(i)] = first[i];
  return x;
}

/// Each worker's numbers rounded, their mean in float in rank order, and that rounded.
auto rounded_mean(std::vector<torch::Tensor> const& of_ranks, at::ScalarType type) -> torch::Tensor {
  auto sum = of_ranks[0].to(type).to(torch::kFloat);
  for (std::size_t rank = 1; rank < of_ranks.size(); ++rank) sum = sum + of_ranks[rank].to(type).to(torch::kFloat);
  return (sum / static_cast<double>(of_ranks.size())).to(type).to(of_ranks[0].scalar_type());
}

auto type_of(Compression compression) -> at::ScalarType {
  return compression == Compression::bf16 ? torch::kBFloat16 : torch::kHalf;
}

/// The failures of a run, which must have some.
auto failures_of(RunSetup const& setup, TrainTorch const& train) -> std::vector<ErrorInfo> {
  try {
    run_once(setup, train);
  } catch (TrainingFailed const& failed) {
    return failed.failures();
  }
  FAIL("the run has not failed");
  return {};
}

/// Rounds to bf16, and adds what was lost to the next gradient of the same bucket.
class WithFeedback : public GradientExchange {
 public:
  using Lost = std::vector<std::vector<float>>;  // of each bucket

  explicit WithFeedback(Lost& lost) : lost_{lost} {}

  void exchange(GradientBucket const& bucket, Collective& collective) override {
    auto const size = static_cast<std::size_t>(bucket.values.numel());
    lost_.resize(bucket.count);
    auto& lost = lost_[bucket.index];
    lost.resize(size);
    std::vector<BFloat16> sent(size);
    auto* const values = bucket.values.data_ptr<float>();
    for (std::size_t i = 0; i < size; ++i) {
      sent[i] = BFloat16{values[i] + lost[i]};
      auto const rounded_off = values[i] + lost[i] - static_cast<float>(sent[i]);
      lost[i] = std::isfinite(rounded_off) ? rounded_off : 0;
    }
    collective.all_reduce(sent, ReduceOp::average);
    for (std::size_t i = 0; i < size; ++i) values[i] = static_cast<float>(sent[i]);
  }

 private:
  Lost& lost_;
};

}  // namespace

TEST_CASE("buckets of 0 bytes are refused before the model is built") {
  auto has_built = false;
  auto const failures = failures_of({.workers = 1}, [&](TorchContext& ctx) {
    (void)ctx.prepare_model(
        [&] {
          has_built = true;
          return Copy{};
        },
        {.bucket_bytes = 0});
  });
  REQUIRE(failures.size() == 1);
  CHECK(failures[0].code == Errc::invalid_config);
  check_contains(failures[0].text(), "ModelOptions::bucket_bytes: must be at least 1 (got 0)");
  CHECK(!has_built);
}

TEST_CASE(
    "an exchange gets buckets of at least bucket_bytes, cut at parameters, each of one type, with 0 in the gaps") {
  struct Seen {
    std::string parts;
    std::int64_t size;
    at::ScalarType type;
  };
  // In float a takes 16 elements, c 32, unused 16 and of_one 48; in double b takes 40.
  auto const seen_with = [](std::size_t bucket_bytes) {
    std::vector<Seen> seen;
    std::vector<std::size_t> counts;
    run_once({.workers = 1}, [&](TorchContext& ctx) {
      auto const look = [&](GradientBucket const& bucket) {
        CHECK(bucket.index == seen.size());
        auto* const first = static_cast<std::byte*>(bucket.values.data_ptr());
        auto const last = static_cast<std::ptrdiff_t>(bucket.values.nbytes());
        std::string parts;
        std::int64_t used = 0;
        auto sum = 0.0;
        for (auto const& part : bucket.parts) {
          parts += part.name + " ";
          CHECK(part.gradient.sizes() == part.parameter.sizes());
          if (part.gradient.numel() > 0) {
            auto const begin = static_cast<std::byte*>(part.gradient.data_ptr()) - first;
            CHECK(begin >= 0);
            CHECK(begin + static_cast<std::ptrdiff_t>(part.gradient.nbytes()) <= last);
          }
          used += part.gradient.ne(0).sum().item<std::int64_t>();
          sum += part.gradient.sum().item<double>();
        }
        CHECK(bucket.values.ne(0).sum().item<std::int64_t>() == used);
        CHECK(bucket.values.sum().item<double>() == doctest::Approx(sum));
        seen.push_back({parts, bucket.values.numel(), bucket.values.scalar_type()});
        counts.push_back(bucket.count);
        bucket.values.fill_(7);  // the gaps, too, which are 0 again in the next backward
      };
      auto model = ctx.prepare_model([] { return Several{}; },
                                     {.exchange = std::make_shared<Watched>(look), .bucket_bytes = bucket_bytes});
      model(1).backward();
      seen.clear();
      counts.clear();
      model->zero_grad();
      model(1).backward();
      CHECK(torch::equal(model->a.grad(), torch::full({3, 5}, 7.0)));
      CHECK(!model->unused.grad().defined());
    });
    CHECK(counts == std::vector<std::size_t>(seen.size(), seen.size()));
    return seen;
  };
  auto const check_parts = [](std::vector<Seen> const& seen, std::vector<Seen> const& expected) {
    REQUIRE(seen.size() == expected.size());
    for (std::size_t i = 0; i < seen.size(); ++i) {
      CHECK(seen[i].parts == expected[i].parts);
      CHECK(seen[i].size == expected[i].size);
      CHECK((seen[i].type == expected[i].type));
    }
  };
  auto const f = torch::kFloat;
  auto const d = torch::kDouble;
  check_parts(seen_with(1 << 20), {{"a none c unused of_one last ", 112, f}, {"b ", 40, d}});
  check_parts(seen_with(1),
              {{"a none ", 16, f}, {"c ", 32, f}, {"unused ", 16, f}, {"of_one last ", 48, f}, {"b ", 40, d}});
  check_parts(seen_with(192), {{"a none c ", 48, f}, {"unused of_one last ", 64, f}, {"b ", 40, d}});
  check_parts(seen_with(193), {{"a none c unused ", 64, f}, {"of_one last ", 48, f}, {"b ", 40, d}});
}

TEST_CASE("an exchange that averages gives the bits of none, with any buckets, and marks of what nobody used") {
  auto const gradients_with = [](std::optional<std::size_t> bucket_bytes) {
    std::vector<Tensors> gradients(3);
    run_once({.workers = 3}, [&](TorchContext& ctx) {
      ModelOptions options;
      if (bucket_bytes) options = {.exchange = std::make_shared<Watched>(), .bucket_bytes = *bucket_bytes};
      auto model = ctx.prepare_model([] { return Several{}; }, options);
      torch::optim::SGD optimizer{model->parameters(), 0.1};
      for (int step = 0; step < 3; ++step) {
        model->zero_grad(step > 0);
        model(ctx.world_rank().value).backward();
        optimizer.step();
      }
      CHECK(!model->unused.grad().defined());
      CHECK(model->of_one.grad().defined());
      gradients[ctx.world_rank().value] = gradients_of(*model);
    });
    return gradients;
  };
  auto const expected = gradients_with({});
  for (std::size_t const bytes : {1, 192, 1 << 20}) {
    CAPTURE(bytes);
    auto const gradients = gradients_with(bytes);
    for (std::size_t rank = 0; rank < 3; ++rank) CHECK(same_bits(gradients[rank], expected[rank]));
  }
}

TEST_CASE("compressed gradients are each worker's rounded, averaged in float and rounded, bit by bit") {
  for (auto const compression : {Compression::bf16, Compression::fp16}) {
    for (int const workers : {1, 2, 3, 4}) {
      CAPTURE(workers);
      CAPTURE(to_string(compression));
      std::vector<torch::Tensor> inputs;
      for (std::uint32_t rank = 0; rank < static_cast<std::uint32_t>(workers); ++rank) inputs.push_back(input_of(rank));
      auto const expected = rounded_mean(inputs, type_of(compression));
      run_once({.workers = workers}, [&](TorchContext& ctx) {
        auto model = ctx.prepare_model([] { return Copy{}; }, {.exchange = compressed(compression)});
        for (int step = 0; step < 2; ++step) {
          model->zero_grad();
          model(inputs[ctx.world_rank().value]).backward();
          CHECK(torch::equal(model->w.grad(), expected));
        }
      });
    }
  }
}

TEST_CASE("double gradients are compressed as well, and stay double") {
  struct Doubles : torch::nn::Module {
    torch::Tensor w = register_parameter("w", torch::zeros({100}, torch::kDouble));
  };
  std::vector<torch::Tensor> inputs;
  for (std::uint32_t rank = 0; rank < 2; ++rank) inputs.push_back(input_of(rank).slice(0, 0, 100).to(torch::kDouble));
  run_once({}, [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Doubles{}; }, {.exchange = compressed(Compression::bf16)});
    (model->w * inputs[ctx.world_rank().value]).sum().backward();
    CHECK(torch::equal(model->w.grad(), rounded_mean(inputs, torch::kBFloat16)));
  });
}

TEST_CASE("a gradient of one worker that is not finite is not finite on any, and fp16 sums beyond its range") {
  std::vector<float> const of_rank_0{infinity, not_a_number, infinity, 60'000, 65'504, 1e-9F, 70'000};
  std::vector<float> const of_rank_1{1, 2, -infinity, 60'000, 65'504, 1e-9F, 0};
  run_once({}, [&](TorchContext& ctx) {
    for (auto const compression : {Compression::bf16, Compression::fp16}) {
      auto model = ctx.prepare_model([] { return Copy{}; }, {.exchange = compressed(compression)});
      model(input_of(ctx.world_rank().value, ctx.world_rank() == Rank{0} ? of_rank_0 : of_rank_1)).backward();
      auto const gradient = model->w.grad();
      CHECK(gradient[0].item<float>() == infinity);
      CHECK(std::isnan(gradient[1].item<float>()));
      CHECK(std::isnan(gradient[2].item<float>()));
      auto const is_fp16 = compression == Compression::fp16;
      CHECK(gradient[3].item<float>() == (is_fp16 ? 60'000.0F : 59'904.0F));
      CHECK(gradient[4].item<float>() == (is_fp16 ? 65'504.0F : 65'536.0F));
      CHECK((gradient[5].item<float>() > 0) == !is_fp16);
      CHECK((gradient[6].item<float>() == infinity) == is_fp16);
      CHECK(gradient.slice(0, 7).isfinite().all().item<bool>());
    }
  });
}

TEST_CASE("a GradScaler leaves out, on all workers, the step of which one worker's gradient does not fit into fp16") {
  run_once({.workers = 3}, [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Copy{}; }, {.exchange = compressed(Compression::fp16)});
    torch::optim::SGD optimizer{model->parameters(), 1.0};
    GradScaler scaler{Precision::bf16};
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      auto const too_large = step == 1 && ctx.world_rank() == Rank{2};
      scaler.scale(model(torch::full({1000}, too_large ? 1e6 : 1.0))).backward();
      CHECK(scaler.step(optimizer) == (step != 1));
      scaler.update();
    }
    CHECK(scaler.skipped_steps() == 1);
    CHECK(torch::equal(model->w, torch::full({1000}, -2.0)));
  });
}

TEST_CASE("what is counted beside compressed gradients travels exactly: marks, buffers and the warning of drift") {
  struct Many : torch::nn::Module {
    std::vector<torch::Tensor> parameters;
    torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d{2});
    Many() {
      for (int i = 0; i < 300; ++i) parameters.push_back(register_parameter(std::to_string(i), torch::ones({1})));
    }
  };
  auto const train = [](bool drifts) {
    return run_once({.workers = 3}, [&](TorchContext& ctx) {
      auto model = ctx.prepare_model([] { return Many{}; }, {.exchange = compressed(Compression::bf16)});
      auto const rank = ctx.world_rank().value;
      if (drifts && rank == 1) {
        torch::NoGradGuard const no_grad;
        model->parameters[0].fill_(1.0000001F);
      }
      auto loss = model->norm(torch::full({3, 2}, rank + 1.0)).sum();
      for (std::size_t i = 0; i < 300; ++i) {
        if (i % 4 == rank) loss = loss + model->parameters[i].sum();
      }
      loss.backward();
      for (std::size_t i = 0; i < 300; ++i) CHECK(model->parameters[i].grad().defined() == (i % 4 < 3));
      CHECK(torch::equal(model->norm->running_mean, torch::full({2}, 0.1F)));  // rank 0's
    });
  };
  CHECK(warnings_with(train(false), "parameters") == 0);
  CHECK(warnings_with(train(true), "the parameters of model 1 are not the same on every rank") == 1);
}

TEST_CASE("ranks with other options are refused on all ranks, and the error names both") {
  auto const failures_with = [](std::function<ModelOptions(Rank)> const& options_of) {
    return failures_of({.workers = 3}, [&](TorchContext& ctx) {
      (void)ctx.prepare_model([] { return Copy{}; }, options_of(ctx.world_rank()));
    });
  };
  auto const check = [](std::vector<ErrorInfo> const& failures, std::string const& text) {
    CHECK(failures.size() == 3);
    for (auto const& failure : failures) {
      CHECK(failure.code == Errc::rank_mismatch);
      check_contains(failure.text(), text);
      check_contains(failure.text(), "give the same ModelOptions on every rank");
    }
  };
  check(failures_with([](Rank rank) -> ModelOptions {
          if (rank == Rank{2}) return {};
          return {.exchange = compressed(Compression::bf16)};
        }),
        "rank 0 has ModelOptions::exchange compressed(bfloat16) with 1048576 bucket_bytes, and rank 2 has no "
        "ModelOptions::exchange");
  check(failures_with([](Rank rank) -> ModelOptions {
          return {.exchange = compressed(rank == Rank{1} ? Compression::fp16 : Compression::bf16)};
        }),
        "and rank 1 has ModelOptions::exchange compressed(float16) with 1048576");
  check(failures_with([](Rank rank) -> ModelOptions {
          return {.exchange = std::make_shared<Watched>(), .bucket_bytes = rank == Rank{2} ? 2U : 1U};
        }),
        "Watched with 1 bucket_bytes, and rank 2 has");
}

TEST_CASE("an exchange and virtual shards are refused together") {
  TemporaryFolder const folder;
  Trainer<TorchBackend> trainer{[](TorchContext& ctx) {
                                  (void)ctx.prepare_model([] { return Copy{}; },
                                                          {.exchange = compressed(Compression::bf16)});
                                },
                                {.scaling = {.num_workers = 2, .virtual_shards = 4},
                                 .run = {.name = "run", .storage_path = folder.path(), .handle_signals = false}}};
  auto const error = thrown_error([&] { trainer.fit(); });
  check_contains(error, "ModelOptions::exchange: was given (compressed(bfloat16)) in a run of 4 virtual shards");
  check_contains(error, "leave it out, or ScalingConfig::virtual_shards");
}

TEST_CASE("an exchange is one model's of one worker, until that model is prepared again or gone") {
  auto const shared = compressed(Compression::bf16);
  auto const failures =
      failures_of({}, [&](TorchContext& ctx) { (void)ctx.prepare_model([] { return Copy{}; }, {.exchange = shared}); });
  check_contains(failures[0].text(),
                 "its ModelOptions::exchange, compressed(bfloat16), is that of another model, or of "
                 "another worker; make one for each model, within the training function");

  run_once({.workers = 1}, [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Copy{}; }, {.exchange = shared});
    auto const error = thrown_error([&] { (void)ctx.prepare_model([] { return Copy{}; }, {.exchange = shared}); });
    check_contains(error, "invalid_call: ");
    model = ctx.prepare_model(model, {.exchange = shared});
    model = Copy{nullptr};
    model = ctx.prepare_model([] { return Copy{}; }, {.exchange = shared});
    model(input_of(0)).backward();
    CHECK(torch::equal(model->w.grad(), rounded_mean({input_of(0)}, torch::kBFloat16)));
  });
}

TEST_CASE(
    "a model that is prepared again without an exchange is averaged without one, also by a worker that is alone") {
  for (int const workers : {1, 2}) {
    run_once({.workers = workers}, [](TorchContext& ctx) {
      auto calls = 0;
      auto const counted = [&] { return std::make_shared<Watched>([&](GradientBucket const&) { ++calls; }); };
      auto model = ctx.prepare_model([] { return Copy{}; }, {.exchange = counted()});
      model(input_of(0)).backward();
      CHECK(calls == 1);
      model = ctx.prepare_model(model);
      model->zero_grad();
      model(input_of(0)).backward();
      CHECK(calls == 1);
      CHECK(torch::equal(model->w.grad(), input_of(0)));
      model = ctx.prepare_model(model, {.exchange = counted()});
      (void)ctx.accumulate(2);
      model->zero_grad();
      model(input_of(0)).backward();
      CHECK(calls == 1);
      (void)ctx.accumulate(2);
      model(input_of(0)).backward();
      CHECK(calls == 2);
      CHECK(torch::equal(model->w.grad(), input_of(0)));
    });
  }
}

TEST_CASE("the mean of a window of batches is what is compressed, once") {
  auto const mean_of = [](std::uint32_t rank) { return (input_of(2 * rank) + input_of(2 * rank + 1)) * 0.5; };
  auto const expected = rounded_mean({mean_of(0), mean_of(1)}, torch::kBFloat16);
  run_once({}, [&](TorchContext& ctx) {
    auto const rank = ctx.world_rank().value;
    auto model = ctx.prepare_model([] { return Copy{}; }, {.exchange = compressed(Compression::bf16)});
    for (std::uint32_t batch = 0; batch < 2; ++batch) {
      (void)ctx.accumulate(2);
      model(input_of(2 * rank + batch)).backward();
    }
    CHECK(torch::equal(model->w.grad(), expected));
  });
}

TEST_CASE("with compressed gradients a sharded optimizer gives the bits of the whole one on each worker") {
  std::vector<Tensors> parameters(2);
  for (auto const is_sharded : {false, true}) {
    run_once({.workers = 3}, [&](TorchContext& ctx) {
      auto model = ctx.prepare_model(
          [] {
            return torch::nn::Sequential{torch::nn::Linear{8, 32}, torch::nn::ReLU{}, torch::nn::Linear{32, 1}};
          },
          {.exchange = compressed(Compression::bf16), .bucket_bytes = 512});
      std::optional<torch::optim::Adam> whole;
      std::optional<ShardedOptimizer> sharded;
      is_sharded ? (void)sharded.emplace(ctx.prepare_optimizer<torch::optim::Adam>(model, {1e-2}))
                 : (void)whole.emplace(model->parameters(), 1e-2);
      torch::optim::Optimizer& optimizer = is_sharded ? static_cast<torch::optim::Optimizer&>(*sharded) : *whole;
      for (int step = 0; step < 5; ++step) {
        optimizer.zero_grad();
        model->forward(input_of(ctx.world_rank().value).view({125, 8})).pow(2).mean().backward();
        torch::nn::utils::clip_grad_norm_(model->parameters(), 0.5);
        optimizer.step();
      }
      if (ctx.world_rank() == Rank{1}) parameters[is_sharded ? 1 : 0] = copies(model->parameters());
    });
  }
  CHECK(same_bits(parameters[0], parameters[1]));
}

TEST_CASE("what an exchange keeps of each worker goes on with the training, to the bits of the undisturbed one") {
  auto const train_failing_after = [](int failing_step) {
    TemporaryFolder const folder;
    Tensors parameters;
    auto fails = failing_step > 0;
    auto const train = [&](TorchContext& ctx) {
      WithFeedback::Lost lost;
      auto model = ctx.prepare_model(
          [] {
            return torch::nn::Linear{64, 10};
          },
          {.exchange = std::make_shared<WithFeedback>(lost), .bucket_bytes = 1});
      torch::optim::SGD optimizer{model->parameters(), 0.05};
      auto shard = ctx.dataset_shard("train");
      auto step = 0;
      TrainingState state{model, optimizer, shard, {"lost", lost}, {"step", step}};
      for (auto epoch = ctx.restore(state); epoch < 2; ++epoch) {
        for (auto const& batch : shard.batches({.batch_size = 8, .epoch = epoch})) {
          optimizer.zero_grad();
          auto const x = batch["image"].to(torch::kFloat).flatten(1) / 256;
          auto const loss = torch::cross_entropy_loss(model(x), batch["label"].to(torch::kLong));
          loss.backward();
          optimizer.step();
          if (++step % 3 == 0) ctx.report(Epoch{epoch, loss.item<double>()}, save(state));
          if (step == failing_step && fails && ctx.world_rank() == Rank{1}) throw std::runtime_error{"as planned"};
        }
      }
      ctx.report(Epoch{1, 0}, save(state));
      CHECK(lost.size() == 2);
      if (ctx.world_rank() == Rank{0}) parameters = copies(model->parameters());
    };
    RunSetup const setup{.workers = 2, .datasets = {{"train", small_images(96)}}, .cpus = 1};
    if (fails) {
      CHECK_THROWS_AS(run_in(folder.path(), setup, train), TrainingFailed);
      fails = false;
    }
    run_in(folder.path(), setup, train);
    return parameters;
  };
  auto const undisturbed = train_failing_after(0);
  CHECK(same_bits(train_failing_after(4), undisturbed));
  CHECK(same_bits(train_failing_after(9), undisturbed));
}

TEST_CASE("errors that an exchange feeds back are none behind a gradient that is infinite") {
  run_once({.workers = 2}, [&](TorchContext& ctx) {
    WithFeedback::Lost lost;
    auto model = ctx.prepare_model([] { return Copy{4}; }, {.exchange = std::make_shared<WithFeedback>(lost)});
    model(torch::full({4}, ctx.world_rank() == Rank{1} ? infinity : 1)).backward();
    CHECK_FALSE(model->w.grad().isfinite().any().item<bool>());
    model->zero_grad();
    model(torch::ones({4})).backward();
    CHECK(torch::equal(model->w.grad(), torch::ones({4})));
  });
}

TEST_CASE("an exchange that throws on one rank ends the run with what it has said, whether others wait for it or not") {
  auto const failures = failures_of({.workers = 3}, [](TorchContext& ctx) {
    auto const look = [&](GradientBucket const&) {
      if (ctx.world_rank() == Rank{1}) throw std::runtime_error{"no way to exchange this"};
    };
    auto model = ctx.prepare_model([] { return Copy{}; }, {.exchange = std::make_shared<Watched>(look)});
    model(input_of(0)).backward();
  });
  auto said = 0;
  for (auto const& failure : failures) {
    if (failure.text().find("no way to exchange this") != std::string::npos) ++said;
  }
  CHECK(said == 1);
}

TEST_CASE("ranks whose exchanges call other operations are refused, and the error names the backward") {
  class Uneven : public GradientExchange {
   public:
    void exchange(GradientBucket const& bucket, Collective& collective) override {
      auto const size = static_cast<std::size_t>(bucket.values.numel()) - (collective.rank() == Rank{1} ? 1 : 0);
      collective.all_reduce(std::span{bucket.values.data_ptr<float>(), size}, ReduceOp::sum);
    }
  };
  auto const failures = failures_of({}, [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Copy{}; }, {.exchange = std::make_shared<Uneven>()});
    model(input_of(0)).backward();
  });
  for (auto const& failure : failures) {
    CHECK(failure.code == Errc::rank_mismatch);
    check_contains(failure.text(), "rank 0 calls all_reduce(1008 x float32, sum) for backward 1 of model 1");
    check_contains(failure.text(), "rank 1 calls all_reduce(1007 x float32, sum) for backward 1 of model 1");
  }
}

TEST_CASE("an unknown compression is refused, with those that there are") {
  for (auto const compression : {Compression::none, Compression::bf16, Compression::fp16})
    CHECK(compression_named(to_string(compression)) == compression);
  CHECK(compressed(Compression::none) == nullptr);
  auto const error = thrown_error([] { (void)compression_named("int8"); });
  check_contains(error, "invalid_config: ");
  check_contains(error, "must be none, bf16 or fp16 (got 'int8')");
}
