// SPDX-License-Identifier: Apache-2.0
// Gradients that are exchanged while a backward goes on.
#include <raytrain/backend/torch/detail/gradient_averager.hpp>
#include <raytrain/backend/torch/detail/model_exchange.hpp>
#include <raytrain/backend/torch/detail/overlap_choice.hpp>
#include <raytrain/backend/torch/detail/worker_step.hpp>
#include <raytrain/backend/torch/model_options.hpp>

#include <torch/torch.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <raytrain/backend/torch.hpp>
#include <raytrain/backend/torch/gradient_exchange.hpp>
#include <raytrain/backend/torch/power_sgd.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/local.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/collective/wrapped_collective.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/train/callback.hpp>
#include <raytrain/train/result.hpp>

#include "../support/thrown_error.hpp"
#include "failure_texts.hpp"
#include "torch_run.hpp"

using raytrain::testing::check_contains;

namespace {

using namespace raytrain;

/// Layers of both types, one that no rank uses, one that rank 1 alone uses, and one that is used twice.
struct NetImpl : torch::nn::Module {
  torch::nn::Linear first = register_module("first", torch::nn::Linear{10, 30});
  torch::nn::Linear unused = register_module("unused", torch::nn::Linear{30, 30});
  torch::nn::Linear twice = register_module("twice", torch::nn::Linear{30, 30});
  torch::Tensor scale = register_parameter("scale", torch::full({30}, 0.5, torch::kDouble));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d{30});
  torch::nn::Linear of_one = register_module("of_one", torch::nn::Linear{30, 30});
  torch::nn::Linear last = register_module("last", torch::nn::Linear{30, 1});

  auto forward(torch::Tensor x, Rank rank) -> torch::Tensor {
    x = torch::tanh(first(x));
    x = torch::tanh(twice(torch::tanh(twice(x))));
    x = norm((x * scale).to(torch::kFloat));
    if (rank == Rank{1}) x = x + of_one(x);
    return last(x).pow(2).mean();
  }
};
TORCH_MODULE(Net);

auto rows_of(Rank rank, int step) -> torch::Tensor {
  auto generator = at::detail::createCPUGenerator(100 * static_cast<std::uint64_t>(step) + rank.value);
  return torch::randn({8, 10}, generator);
}

using Trained = std::vector<Tensors>;  // parameters and buffers, by rank

using Loop = std::function<void(TorchContext&, Net&, torch::optim::Optimizer&)>;

void plain_loop(TorchContext& ctx, Net& model, torch::optim::Optimizer& optimizer) {
  for (int step = 0; step < 5; ++step) {
    optimizer.zero_grad();
    model(rows_of(ctx.world_rank(), step), ctx.world_rank()).backward();
    CHECK(!model->unused->weight.grad().defined());
    CHECK(model->of_one->weight.grad().defined());
    optimizer.step();
  }
}

auto train(std::function<ModelOptions()> const& options, Loop const& loop = plain_loop, int workers = 3) -> Trained {
  Trained trained(static_cast<std::size_t>(workers));
  run_once({.workers = workers}, [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Net{}; }, options());
    torch::optim::SGD optimizer{model->parameters(), 0.01};
    loop(ctx, model, optimizer);
    auto state = model->parameters();
    for (auto const& buffer : model->buffers()) state.push_back(buffer);
    trained[ctx.world_rank().value] = copies(state);
  });
  return trained;
}

void check_same(Trained const& left, Trained const& right) {
  for (std::size_t rank = 0; rank < left.size(); ++rank) {
    CAPTURE(rank);
    CHECK(same_bits(left[rank], right[rank]));  // a NaN is not the same as another one
  }
}

/// Of each of two ranks.
struct Measured {
  std::array<double, 2> behind{};        ///< What backwards and exchanges take, in ms.
  std::array<double, 2> exchange{4, 4};  ///< And of that exchanges, before both ways are tried.
  std::array<double, 2> beside{};
  std::array<bool, 2> may_pay{true, true};
  std::array<bool, 2> gradient_comes_twice{};
};

/// What both ranks say that they have chosen; empty where they have not tried both ways.
auto choice_of(Measured const& measured) -> std::string {
  using raytrain::detail::OverlapChoice;
  auto const ranks = local_collectives(WorldSize{2}, {});
  std::array<std::string, 2> texts;
  std::vector<std::jthread> threads;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      auto const collective = ranks.collective_of(Rank{rank});
      OverlapChoice choice{measured.may_pay.at(rank)};
      choice.begin_backward(1);
      choice.arrive(0);
      if (measured.gradient_comes_twice.at(rank)) choice.arrive(0);
      auto has_tried = false;
      for (std::size_t i = 0; !choice.is_made(); ++i) {
        auto const is_counted = i % (OverlapChoice::not_counted + OverlapChoice::of_each) >= OverlapChoice::not_counted;
        has_tried = has_tried || choice.tries_both();
        OverlapChoice::Duration const all{(choice.overlaps() ? measured.beside : measured.behind).at(rank)};
        OverlapChoice::Duration const exchange{measured.exchange.at(rank)};
        is_counted || has_tried ? choice.add({all, exchange}, *collective)
                                : choice.add({std::chrono::seconds{100}, std::chrono::seconds{100}}, *collective);
      }
      if (has_tried) texts.at(rank) = choice.text();
    });
  }
  threads.clear();
  CHECK(texts[0] == texts[1]);
  return texts[0];
}

/// Takes so long for an array of 256 bytes or more, as gradients are and counts are not. Of its duplicates, which have
/// a time of their own, it has as many as it says; without a time for them it refuses to make one.
class Slow final : public WrappedCollective {
 public:
  using Time = std::chrono::milliseconds;

  Slow(std::unique_ptr<Collective> inside, Time time, std::optional<Time> of_duplicates, std::atomic<int>& duplicates)
      : WrappedCollective{*inside},
        inside_{std::move(inside)},
        time_{time},
        of_duplicates_{of_duplicates},
        duplicates_{duplicates} {}

  [[nodiscard]] auto start(Task const& task) -> Pending override {
    auto const end = std::chrono::steady_clock::now() + time_;
    while (task.to.size() >= 256 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    return inside_->start(task);
  }

  [[nodiscard]] auto duplicate() -> std::unique_ptr<Collective> override {
    if (rank() == Rank{0}) ++duplicates_;
    if (!of_duplicates_) return Collective::duplicate();
    return std::make_unique<Slow>(inside_->duplicate(), *of_duplicates_, of_duplicates_, duplicates_);
  }

 private:
  std::unique_ptr<Collective> inside_;
  Time time_;
  std::optional<Time> of_duplicates_;
  std::atomic<int>& duplicates_;
};

struct ByHand {
  ModelOptions options;
  Slow::Time gradients{0};
  std::optional<Slow::Time> in_duplicates{};
  bool has_spare_core = false;
  bool spans_hosts = false;
};

struct AveragedByHand {
  std::vector<double> shares;      ///< Behind each backward, on rank 0; 0 where nothing is measured.
  std::vector<std::string> lines;  ///< That rank 0 prints.
  int duplicates = 0;
  Trained gradients = Trained(2);  ///< Of all backwards.
};

/// Two ranks whose gradients are averaged in 45 backwards, without a trainer.
auto averaged_by_hand(ByHand const& how) -> AveragedByHand {
  AveragedByHand all;
  std::atomic<int> duplicates = 0;
  auto const ranks = local_collectives(WorldSize{2}, {});
  std::vector<std::jthread> threads;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      auto generator = at::detail::createCPUGenerator(7);
      torch::nn::Sequential model{torch::nn::Linear{10, 16}, torch::nn::Linear{16, 16}};
      for (auto const& parameter : model->parameters()) parameter.detach().normal_(0, 1, generator);
      Slow collective{ranks.collective_of(Rank{rank}), how.gradients, how.in_duplicates, duplicates};
      raytrain::detail::GradientAverager const averager{
          *model,
          1,
          {.collective = collective,
           .worker_step = std::make_shared<raytrain::detail::WorkerStep>(),
           .warn = [](std::string const&) {},
           .exchange = raytrain::detail::ModelExchange{how.options, WorldSize{2}},
           .print =
               [&, rank](std::string line) {
                 if (rank == 0) all.lines.push_back(std::move(line));
               },
           .has_spare_core = how.has_spare_core,
           .spans_hosts = how.spans_hosts}};
      for (int step = 0; step < 45; ++step) {
        model->zero_grad();
        model->forward(rows_of(Rank{rank}, step)).pow(2).mean().backward();
        for (auto const& parameter : model->parameters()) all.gradients[rank].push_back(parameter.grad().clone());
        if (rank == 0) all.shares.push_back(averager.measured_share().value_or(0));
      }
    });
  }
  threads.clear();
  all.duplicates = duplicates;
  return all;
}

/// Buckets of one parameter each.
auto measured_in_buckets() -> ModelOptions { return {.bucket_bytes = 1}; }

/// Behind each of 45 backwards: after 14 of them both ways are tried, and chosen after 24 more.
auto shares_of_trial(double chosen) -> std::vector<double> {
  std::vector<double> shares(13);
  shares.resize(37, 0.5);
  shares.resize(45, chosen);
  return shares;
}

}  // namespace

TEST_CASE("gradients that are exchanged during a backward have the bits of those behind it, with any buckets") {
  auto const expected = train([] { return ModelOptions{}; });
  for (std::size_t const bytes : {1, 500, 5000, 1 << 20}) {
    CAPTURE(bytes);
    check_same(train([&] { return ModelOptions{.bucket_bytes = bytes, .overlap = Overlap::on}; }), expected);
  }
  check_same(train([&] { return ModelOptions{.bucket_bytes = 500, .overlap = Overlap::measured}; }), expected);
}

TEST_CASE(
    "gradients that are added up, kept, replaced and accumulated have the same bits with an exchange during "
    "backwards") {
  Loop const loop = [](TorchContext& ctx, Net& model, torch::optim::Optimizer& optimizer) {
    auto const rank = ctx.world_rank();
    std::vector<torch::Tensor> kept;
    for (int step = 0; step < 4; ++step) {
      if (step != 2) model->zero_grad(step == 1);
      model(rows_of(rank, step), rank).backward();
      model(rows_of(rank, 10 + step), rank).backward();
      kept.push_back(model->first->weight.grad());
      model->last->weight.mutable_grad() = model->last->weight.grad() * 2;
      model(rows_of(rank, 20 + step), rank).backward();
      optimizer.step();
    }
    for (int batch = 0; batch < 6; ++batch) {
      auto const is_last = ctx.accumulate(3);
      model(rows_of(rank, 30 + batch), rank).backward();
      if (!is_last) continue;
      optimizer.step();
      model->zero_grad(true);
    }
    torch::NoGradGuard const no_grad;
    for (auto const& gradient : kept) model->first->weight.add_(gradient);
  };
  auto const expected = train([] { return ModelOptions{}; }, loop);
  check_same(train([&] { return ModelOptions{.bucket_bytes = 1, .overlap = Overlap::on}; }, loop), expected);
}

TEST_CASE("compressed gradients have the same bits with an exchange during backwards") {
  auto const with = [](Overlap overlap) {
    return train([&] {
      return ModelOptions{.exchange = compressed(Compression::bf16), .bucket_bytes = 500, .overlap = overlap};
    });
  };
  check_same(with(Overlap::on), with(Overlap::off));
}

TEST_CASE("buckets are exchanged while the backward computes the gradients of those before them") {
  /// Counts the calls, on whatever thread.
  struct Counted : GradientExchange {
    std::atomic<int>& calls;
    explicit Counted(std::atomic<int>& counter) : calls{counter} {}
    void exchange(GradientBucket const& bucket, Collective& collective) override {
      collective.all_reduce(std::span{bucket.values.data_ptr<float>(), static_cast<std::size_t>(bucket.values.numel())},
                            ReduceOp::average);
      calls.fetch_add(1);
      calls.notify_all();
    }
    auto allows_overlap() const -> bool override { return true; }
  };
  run_once({}, [](TorchContext& ctx) {
    std::atomic<int> calls = 0;
    auto model = ctx.prepare_model(
        [] {
          return torch::nn::Sequential{torch::nn::Linear{4, 4}, torch::nn::Linear{4, 4}, torch::nn::Linear{4, 1}};
        },
        {.exchange = std::make_shared<Counted>(calls), .bucket_bytes = 1, .overlap = Overlap::on});
    auto x = torch::ones({2, 4}, torch::requires_grad());
    auto const y = model->ptr<torch::nn::LinearImpl>(0)->forward(x);
    auto waited = 0;
    // The backward comes here when the gradients of both layers behind it are there. It ends only if some are
    // exchanged.
    y.register_hook([&](torch::Tensor const&) {
      calls.wait(0);
      waited = calls;
    });
    model->ptr<torch::nn::LinearImpl>(2)->forward(model->ptr<torch::nn::LinearImpl>(1)->forward(y)).sum().backward();
    CHECK(waited >= 1);
    CHECK(calls == 6);
  });
}

TEST_CASE("all ranks choose, in one of a model's first backwards, what is faster on the mean") {
  CHECK(choice_of({.behind = {4, 8}, .beside = {5, 6}}) ==
        "during its backwards, which take 5.50 ms instead of 6.00 ms");
  CHECK(choice_of({.behind = {4, 8}, .beside = {5, 8}}) ==
        "after its backwards, which take 6.00 ms instead of 6.50 ms");
}

TEST_CASE(
    "exchanges are not tried beside backwards where all ranks' mean is a tenth of them, nor where one rank says so") {
  Measured const small{.behind = {10, 10}, .exchange = {0.5, 1.5}, .beside = {1, 1}};
  CHECK(choice_of(small).empty());
  auto larger = small;
  larger.exchange = {0.5, 1.6};
  CHECK(!choice_of(larger).empty());
  auto without_core = larger;
  without_core.may_pay = {true, false};
  CHECK(choice_of(without_core).empty());
  auto with_second_gradient = larger;
  with_second_gradient.gradient_comes_twice = {true, false};
  CHECK(choice_of(with_second_gradient).empty());
}

TEST_CASE("exchanges go on beside backwards where that was faster, with the same bits in all backwards") {
  auto const expected = averaged_by_hand({.options = {.overlap = Overlap::off}});
  for (bool const spans_hosts : {false, true}) {
    CAPTURE(spans_hosts);
    auto const all = averaged_by_hand({.options = measured_in_buckets(),
                                       .gradients = std::chrono::milliseconds{20},
                                       .in_duplicates = std::chrono::milliseconds{0},
                                       .has_spare_core = !spans_hosts,
                                       .spans_hosts = spans_hosts});
    CHECK(all.shares == shares_of_trial(1));
    REQUIRE(all.lines.size() == 1);
    check_contains(all.lines[0], "model 1 exchanges its gradients during its backwards, which take ");
    CHECK(all.duplicates == 1);
    check_same(all.gradients, expected.gradients);
  }
}

TEST_CASE("exchanges come behind backwards again where that was faster, with the same bits in all backwards") {
  auto const all = averaged_by_hand({.options = measured_in_buckets(),
                                     .gradients = std::chrono::milliseconds{5},
                                     .in_duplicates = std::chrono::milliseconds{20},
                                     .has_spare_core = true});
  CHECK(all.shares == shares_of_trial(0));
  REQUIRE(all.lines.size() == 1);
  check_contains(all.lines[0], "model 1 exchanges its gradients after its backwards, which take ");
  check_same(all.gradients, averaged_by_hand({.options = {.overlap = Overlap::off}}).gradients);
}

TEST_CASE("where exchanges beside backwards cannot pay, or are not possible, nothing is begun or printed") {
  auto const expected = averaged_by_hand({.options = {.overlap = Overlap::off}});
  auto const check_plain = [&](ByHand const& how, int duplicates) {
    auto const all = averaged_by_hand(how);
    CHECK(all.lines.empty());
    CHECK(all.duplicates == duplicates);
    CHECK(all.shares.back() == 0);
    check_same(all.gradients, expected.gradients);
  };
  ByHand slow{.options = measured_in_buckets(), .gradients = std::chrono::milliseconds{5}, .has_spare_core = true};
  check_plain(slow, 1);  // which is refused
  slow.in_duplicates = std::chrono::milliseconds{0};
  slow.has_spare_core = false;
  check_plain(slow, 0);
  slow.has_spare_core = true;
  slow.options.bucket_bytes = ModelOptions{}.bucket_bytes;  // one bucket
  check_plain(slow, 0);
}

TEST_CASE("between workers of one host that share its cores nothing is tried, and rank 0 prints nothing") {
  struct Lines : Callback {
    auto on_print(std::string_view line) -> bool override {
      all.emplace_back(line);
      return true;
    }
    std::vector<std::string> all;
  };
  auto const lines = std::make_shared<Lines>();
  TemporaryFolder const folder;
  Trainer<TorchBackend> trainer{[](TorchContext& ctx) {
                                  auto measured = ctx.prepare_model([] { return Net{}; });
                                  auto other = ctx.prepare_model([] { return Net{}; }, {.overlap = Overlap::on});
                                  for (int step = 0; step < 40; ++step) {
                                    measured(rows_of(ctx.world_rank(), step), ctx.world_rank()).backward();
                                    other(rows_of(ctx.world_rank(), step), ctx.world_rank()).backward();
                                  }
                                },
                                {.scaling = {.num_workers = 2},
                                 .run = {.name = "run", .storage_path = folder.path(), .handle_signals = false},
                                 .callbacks = {lines}}};
  trainer.fit();
  CHECK(lines->all.empty());
}

TEST_CASE("with report_step_times reports say which part of exchanges is beside backwards, where that is measured") {
  for (auto const overlap : {Overlap::measured, Overlap::on}) {
    TemporaryFolder const folder;
    Trainer<TorchBackend> trainer{[=](TorchContext& ctx) {
                                    auto model = ctx.prepare_model([] { return Net{}; }, {.overlap = overlap});
                                    ctx.report(Epoch{0, 0.5});
                                    for (int step = 0; step < 40; ++step) {
                                      model(rows_of(ctx.world_rank(), step), ctx.world_rank()).backward();
                                    }
                                    ctx.report(Epoch{1, 0.5});
                                  },
                                  {.scaling = {.num_workers = 2},
                                   .run = {.name = "run", .storage_path = folder.path(), .handle_signals = false},
                                   .backend = {.report_step_times = true}}};
    auto const result = trainer.fit();
    REQUIRE(result.history.size() == 2);
    CHECK(result.history[0].metrics.contains("overlapped") == (overlap == Overlap::measured));
    if (overlap == Overlap::on) continue;
    CHECK(result.history[0].metrics.number("overlapped") == 0);
    CHECK(result.history[1].metrics.number("overlapped") == 0);
  }
}

TEST_CASE(
    "buckets are exchanged in the order in which rank 0's gradients came in the first backward, unused ones last") {
  struct Recording : GradientExchange {
    void exchange(GradientBucket const& bucket, Collective& collective) override {
      indices.push_back(bucket.index);
      collective.all_reduce(std::span{bucket.values.data_ptr<float>(), static_cast<std::size_t>(bucket.values.numel())},
                            ReduceOp::average);
    }
    [[nodiscard]] auto allows_overlap() const -> bool override { return true; }
    std::vector<std::size_t> indices;
  };
  struct Layers : torch::nn::Module {
    auto layer(char const* name) -> torch::nn::Linear {
      return register_module(name, torch::nn::Linear{torch::nn::LinearOptions(4, 4).bias(false)});
    }
    std::array<torch::nn::Linear, 4> all{layer("a"), layer("b"), layer("c"), layer("unused")};
  };
  std::array<std::vector<std::size_t>, 2> indices;
  std::array<torch::Tensor, 2> gradients;
  run_once({.workers = 2}, [&](TorchContext& ctx) {
    auto const rank = ctx.world_rank().value;
    auto const recording = std::make_shared<Recording>();
    auto model =
        ctx.prepare_model([] { return Layers{}; }, {.exchange = recording, .bucket_bytes = 1, .overlap = Overlap::on});
    for (int step = 0; step < 2; ++step) {
      model->zero_grad();
      auto x = torch::ones({2, 4}) * (rank + 1.0);
      // The gradient of what is used last comes first.
      for (auto const used : rank == 0 ? std::array{1, 2, 0} : std::array{2, 0, 1}) x = model->all.at(used)(x);
      x.sum().backward();
    }
    indices.at(rank) = recording->indices;
    gradients.at(rank) = model->all[2]->weight.grad().clone();
  });
  CHECK(indices[0] == std::vector<std::size_t>{3, 2, 1, 0, 0, 2, 1, 3});
  CHECK(indices[1] == indices[0]);
  CHECK(torch::equal(gradients[0], gradients[1]));
}

TEST_CASE(
    "an exchange that cannot overlap, and virtual shards, are refused where it is on, and so are ranks that differ") {
  auto const refusal = [](std::function<ModelOptions(Rank)> const& options, int virtual_shards = 0) {
    TemporaryFolder const folder;
    Trainer<TorchBackend> trainer{
        [&](TorchContext& ctx) { (void)ctx.prepare_model([] { return Net{}; }, options(ctx.world_rank())); },
        {.scaling = {.num_workers = 2, .virtual_shards = virtual_shards},
         .run = {.name = "run", .storage_path = folder.path(), .handle_signals = false}}};
    return failure_texts([&] { trainer.fit(); });
  };
  check_contains(
      refusal([](Rank) { return ModelOptions{.exchange = std::make_shared<PowerSGD>(), .overlap = Overlap::on}; }),
      "ModelOptions::overlap: cannot be on with the exchange");
  check_contains(refusal([](Rank) { return ModelOptions{.overlap = Overlap::on}; }, 2),
                 "ModelOptions::overlap: was given (on) in a run of 2 virtual shards");
  check_contains(
      refusal([](Rank rank) { return ModelOptions{.overlap = rank == Rank{0} ? Overlap::off : Overlap::on}; }),
      "rank 0 has no ModelOptions::exchange, ModelOptions::overlap off, and rank 1 has no ModelOptions::exchange, "
      "ModelOptions::overlap on, with 1048576 bucket_bytes");
  check_contains(refusal([](Rank rank) { return ModelOptions{.bucket_bytes = rank == Rank{0} ? 1U : 1U << 20U}; }),
                 "rank 0 has no ModelOptions::exchange with 1 bucket_bytes, and rank 1 has no ModelOptions::exchange;");
}

TEST_CASE("what allows for no overlap trains without where nothing is said of it") {
  run_once({.workers = 2}, [](TorchContext& ctx) {
    auto model = ctx.prepare_model([] { return Net{}; }, {.exchange = std::make_shared<PowerSGD>()});
    model(rows_of(ctx.world_rank(), 0), ctx.world_rank()).backward();
  });
}

TEST_CASE("a rank that fails, ends or stops within a backward ends the others' backwards") {
  auto const fails = [](std::function<void(TorchContext&, Net&)> const& act) {
    return failure_texts([&] {
      run_once({.workers = 3}, [&](TorchContext& ctx) {
        auto model = ctx.prepare_model([] { return Net{}; }, {.bucket_bytes = 1, .overlap = Overlap::on});
        model(rows_of(ctx.world_rank(), 0), ctx.world_rank()).backward();
        if (ctx.world_rank() == Rank{2}) return act(ctx, model);
        model(rows_of(ctx.world_rank(), 1), ctx.world_rank()).backward();
      });
    });
  };
  check_contains(fails([](TorchContext&, Net&) { throw std::runtime_error{"on purpose"}; }), "on purpose");
  check_contains(fails([](TorchContext&, Net&) {}), "rank 2 has ended");
  check_contains(fails([](TorchContext& ctx, Net&) { ctx.collective().barrier(); }), "barrier()");
  check_contains(
      fails([](TorchContext&, Net& model) {
        model->first->weight.register_hook([](torch::Tensor const&) { throw std::runtime_error{"in a hook"}; });
        model(rows_of(Rank{2}, 1), Rank{2}).backward();
      }),
      "in a hook");
}

TEST_CASE("a backward after one that failed with gradients on their way is refused, where none were it is not") {
  auto const second = [](char const* where, bool is_refused) {
    return failure_texts([&] {
      run_once({}, [&](TorchContext& ctx) {
        auto model = ctx.prepare_model([] { return Net{}; }, {.bucket_bytes = 1, .overlap = Overlap::on});
        auto const rank = ctx.world_rank();
        auto const parameter = *model->named_parameters().find(where);
        auto const hook = parameter.register_hook([](torch::Tensor const&) { throw std::runtime_error{"on purpose"}; });
        CHECK_THROWS_WITH_AS(model(rows_of(rank, 0), rank).backward(), doctest::Contains("on purpose"),
                             std::runtime_error);
        parameter.remove_hook(hook);
        for (int time = 0; time < 2; ++time) {
          model->zero_grad();
          auto const loss = model(rows_of(rank, 0), rank);
          if (time == 0 && is_refused) {
            CHECK_THROWS_AS(loss.backward(), Error);
          } else {
            loss.backward();
          }
        }
      });
    });
  };
  check_contains(second("first.weight", true),
                 "the backward before this one has failed when some of its gradients were on their way");
  CHECK(second("last.bias", false).empty());
}
