// SPDX-License-Identifier: Apache-2.0
// A function of the program's on each batch, in threads.
#include <torch/torch.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <iterator>
#include <memory>
#include <ranges>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/backend/torch.hpp>
#include <raytrain/data/prefetch_options.hpp>
#include <raytrain/trainer.hpp>

#include "../support/thrown_error.hpp"
#include "torch_run.hpp"

using namespace raytrain;
using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;

namespace {

auto floats_of(TorchBatch const& batch) -> torch::Tensor { return batch["image"].to(torch::kFloat).flatten(1) / 256; }

/// Draws from the batch's generator, and without one.
auto noisy_images(TorchBatch const& batch, at::Generator& generator) -> torch::Tensor {
  auto const images = floats_of(batch);
  return torch::dropout(images + torch::rand(images.sizes(), generator), 0.5, true) + torch::rand_like(images);
}

using Noisy = decltype(&noisy_images);
using Mapped = MappedBatches<TorchBatchRange, Noisy>;
static_assert(std::input_iterator<Mapped::Iterator> && std::ranges::input_range<Mapped const>);
static_assert(!BatchFunction<int (*)(int), TorchBatch, at::Generator&>);
static_assert(!BatchFunction<std::unique_ptr<int>, TorchBatch, at::Generator&>);

auto train_dataset(std::size_t rows) -> Datasets { return {{"train", small_images(rows)}}; }

struct MappedRun {
  PrefetchOptions prefetch{};
  std::vector<int> failing{};  ///< Steps after which the run fails, and is started again.
  WorkerCount workers = 2;
  int virtual_shards = 0;
};

/// Parameters of each rank after two epochs with dropout, on noisy_images batches, with a checkpoint in every third
/// step.
auto trained_on_mapped(MappedRun run) -> std::vector<Tensors> {
  TemporaryFolder const folder;
  std::vector<Tensors> parameters(3);
  auto const train = [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] {
      return torch::nn::Sequential{torch::nn::Linear{64, 16}, torch::nn::Dropout{0.5}, torch::nn::Linear{16, 1}};
    });
    torch::optim::Adam optimizer{model->parameters(), 1e-2};
    auto shard = ctx.dataset_shard("train");
    int step = 0;
    TrainingState state{model, optimizer, shard, {"step", step}};
    for (auto epoch = ctx.restore(state); epoch < 2; ++epoch) {
      for (auto const& images : shard.batches({.batch_size = 4, .epoch = epoch}).map(noisy_images, run.prefetch)) {
        auto const loss = model->forward(images).square().mean();
        loss.backward();
        if (!ctx.accumulate(1)) continue;
        optimizer.step();
        optimizer.zero_grad();
        if (++step % 3 == 0) ctx.report(Epoch{epoch, loss.item<double>()}, save(state));
        if (ctx.world_rank() == Rank{0} && !run.failing.empty() && step == run.failing.front())
          throw std::runtime_error{"as planned"};
      }
      ctx.report(Epoch{epoch, 0}, save(state));
    }
    parameters[ctx.world_rank().value] = copies(model->parameters());
  };
  auto const fit = [&] {
    Trainer<TorchBackend> trainer{train,
                                  {.scaling = {.num_workers = run.workers,
                                               .resources_per_worker = {.cpus = 1},
                                               .virtual_shards = run.virtual_shards},
                                   .run = {.name = "run", .storage_path = folder.path(), .handle_signals = false},
                                   .datasets = train_dataset(96)}};
    trainer.fit();
  };
  while (!run.failing.empty()) {
    CHECK_THROWS_AS(fit(), TrainingFailed);
    run.failing.erase(run.failing.begin());
  }
  fit();
  return parameters;
}

}  // namespace

TEST_CASE("what a function makes of batches is the same with any number of threads, in order, and so are positions") {
  struct Seen {
    Tensors made{};  // also what the loop draws itself
    std::vector<ShardPosition> positions{};
  };
  auto const options_of = [](int epoch) {  // the second epoch in windows, across which some batches lie
    BatchOptions options{.batch_size = 4, .epoch = epoch};
    if (epoch == 1) options.shuffle_window = 7;
    return options;
  };
  auto const seen_with = [&](PrefetchOptions const& options, int workers) {
    std::vector<Seen> seen(2);
    run_once({.workers = workers, .datasets = train_dataset(70)}, [&](TorchContext& ctx) {
      auto const model = ctx.prepare_model([] { return torch::nn::Linear{1, 1}; });  // seeds what is drawn
      auto shard = ctx.dataset_shard("train");
      auto& own = seen[ctx.world_rank().value];
      for (auto epoch : {0, 1}) {
        for (auto images : shard.batches(options_of(epoch)).map(noisy_images, options)) {
          own.positions.push_back(shard.position());
          own.made.push_back(std::move(images));
          own.made.push_back(torch::rand({2}));
          own.made.push_back(torch::rand({2}, ctx.generator()));
        }
      }
    });
    return seen;
  };
  for (auto const workers : {1, 2}) {
    CAPTURE(workers);
    auto const plain = seen_with({.threads = 0}, workers);
    std::vector<ShardPosition> expected;
    Tensors drawn;
    run_once({.workers = workers, .datasets = train_dataset(70)}, [&](TorchContext& ctx) {
      auto const model = ctx.prepare_model([] { return torch::nn::Linear{1, 1}; });
      auto shard = ctx.dataset_shard("train");
      for (auto epoch : {0, 1}) {
        for (auto const& batch : shard.batches(options_of(epoch))) {
          if (ctx.world_rank() != Rank{0} || batch.size() == 0) continue;
          expected.push_back(shard.position());
          drawn.push_back(torch::rand({2}));
        }
      }
    });
    CHECK((plain[0].positions == expected));
    REQUIRE(plain[0].made.size() == 3 * drawn.size());
    for (std::size_t i = 0; i < drawn.size(); ++i) CHECK(torch::equal(plain[0].made[3 * i + 1], drawn[i]));
    CHECK_FALSE(torch::equal(plain[0].made[0], plain[0].made[3]));
    for (auto const threads : {1, 3}) {
      auto const threaded = seen_with({.threads = threads, .prefetch_factor = 4}, workers);
      for (std::size_t rank = 0; rank < 2; ++rank) {
        CHECK(same_bits(threaded[rank].made, plain[rank].made));
        CHECK((threaded[rank].positions == plain[rank].positions));
      }
    }
  }
}

TEST_CASE("a training on mapped batches that fails in the middle of epochs goes on to the bits of an undisturbed one") {
  auto const whole = trained_on_mapped({.prefetch = {.threads = 0}});
  auto const disturbed = trained_on_mapped({.prefetch = {.threads = 2, .prefetch_factor = 3}, .failing = {4, 9, 17}});
  for (std::size_t rank = 0; rank < 2; ++rank) CHECK(same_bits(disturbed[rank], whole[rank]));
}

TEST_CASE("with virtual shards a training on mapped batches has the same bits with any number of workers") {
  auto const alone = trained_on_mapped({.workers = 1, .virtual_shards = 4})[0];
  CHECK_FALSE(alone.empty());
  for (auto const workers : {2, 3}) {
    CHECK(
        same_bits(trained_on_mapped({.prefetch = {.threads = 2}, .workers = workers, .virtual_shards = 4})[0], alone));
  }
}

TEST_CASE("what the function throws comes out of the loop at its batch, and the batch was not handed out") {
  for (auto const threads : {0, 2}) {
    run_once({.workers = 1, .datasets = train_dataset(64)}, [&](TorchContext& ctx) {
      auto shard = ctx.dataset_shard("train");
      auto const fails_at_24 = [](TorchBatch const& batch) {
        if (batch.rows().row(0) == 24) throw std::out_of_range{"row 24"};
        return batch.rows().row(0);
      };
      std::vector<std::uint64_t> first_rows;
      auto const loop = [&] {
        for (auto row : shard.batches({.batch_size = 8, .shuffle = false}).map(fails_at_24, {.threads = threads}))
          first_rows.push_back(row);
      };
      CHECK_THROWS_WITH_AS(loop(), "row 24", std::out_of_range);
      CHECK(first_rows == std::vector<std::uint64_t>{0, 8, 16});
      CHECK((shard.position() == ShardPosition{0, 24}));
    });
  }
}

TEST_CASE("a loop that is left early, by a break, an exception or a stop, leaves no thread behind") {
  enum class Leaves { by_break, by_exception, by_stop };
  struct Stopper : Callback {
    void on_start(RunInfo const& info) override { stop = info.request_stop; }
    std::function<void()> stop;
  };
  for (auto const leaves : {Leaves::by_break, Leaves::by_exception, Leaves::by_stop}) {
    auto const alive = std::make_shared<int>();
    std::atomic<int> made{0};
    auto const stopper = std::make_shared<Stopper>();
    TemporaryFolder const folder;
    auto const train = [&](TorchContext& ctx) {
      auto shard = ctx.dataset_shard("train");
      auto const f = [alive, &made](TorchBatch const& batch) {
        ++made;
        return batch.size();
      };
      auto taken = 0;
      for (auto size : shard.batches({.batch_size = 1}).map(f, {.threads = 2})) {
        CHECK(size == 1);
        if (++taken < 3) continue;
        if (leaves == Leaves::by_break) break;
        if (leaves == Leaves::by_exception) throw std::runtime_error{"as planned"};
        stopper->stop();
        while (true) ctx.report(Epoch{0, 0});  // ends by Stopped
      }
      CHECK(made <= 3 + 4);
      CHECK(alive.use_count() == 2);  // this one, and that of f
    };
    Trainer<TorchBackend> trainer{train,
                                  {.scaling = {.num_workers = 1},
                                   .run = {.name = "run", .storage_path = folder.path(), .handle_signals = false},
                                   .datasets = train_dataset(64),
                                   .callbacks = {stopper}}};
    if (leaves == Leaves::by_exception) {
      CHECK_THROWS_AS(trainer.fit(), TrainingFailed);
    } else {
      CHECK((trainer.fit().state == RunState::aborted) == (leaves == Leaves::by_stop));
    }
    CHECK(made <= 3 + 4);
    CHECK(alive.use_count() == 1);
  }
}

TEST_CASE("operations of the function use one thread each, and those of the training as many as before") {
  run_once({.workers = 1, .datasets = train_dataset(32), .cpus = 3}, [](TorchContext& ctx) {
    auto shard = ctx.dataset_shard("train");
    auto const threads = [](TorchBatch const&) { return std::pair{at::get_num_threads(), std::this_thread::get_id()}; };
    std::set<std::thread::id> ids;
    for (auto const& [count, id] : shard.batches({.batch_size = 2}).map(threads, {.threads = 2})) {
      CHECK(count == 1);
      ids.insert(id);
      CHECK(at::get_num_threads() == 3);
    }
    CHECK_FALSE(ids.contains(std::this_thread::get_id()));
    auto later = 0;
    std::thread{[&] { later = at::get_num_threads(); }}.join();
    CHECK(later == 3);
    for (auto const& [count, id] : shard.batches({.batch_size = 2, .epoch = 1}).map(threads, {.threads = 0})) {
      CHECK(count == 3);
      CHECK(id == std::this_thread::get_id());
    }
  });
}

TEST_CASE("the function computes without gradients and in full precision, in threads and without") {
  run_once({.workers = 1, .datasets = train_dataset(8)}, [](TorchContext& ctx) {
    auto shard = ctx.dataset_shard("train");
    auto const weight = torch::ones({64, 64}, torch::requires_grad());
    auto const product = [&](TorchBatch const& batch) { return floats_of(batch).mm(weight); };
    auto const autocast = ctx.autocast(Precision::bf16);
    for (auto const threads : {0, 2}) {
      auto made = 0;
      for (auto const& result : shard.batches({.batch_size = 4, .epoch = threads}).map(product, {.threads = threads})) {
        CHECK_FALSE(result.requires_grad());
        CHECK((result.scalar_type() == torch::kFloat));
        ++made;
      }
      CHECK(made == 2);
    }
    CHECK((torch::ones({64, 64}).mm(weight).scalar_type() == torch::kBFloat16));
    CHECK(torch::ones({64, 64}).mm(weight).requires_grad());
  });
}

TEST_CASE("results that can only be moved, an epoch that is over, and results that are passed by") {
  run_once({.workers = 1, .datasets = train_dataset(9)}, [](TorchContext& ctx) {
    auto shard = ctx.dataset_shard("train");
    auto const pointer = [](TorchBatch const& batch) { return std::make_unique<std::uint64_t>(batch.rows().row(0)); };
    BatchOptions const options{.batch_size = 3, .shuffle = false};
    for (auto const threads : {0, 1}) {
      auto const mapped = shard.batches(options).map(pointer, {.threads = threads});
      CHECK(mapped.size() == 3);
      auto it = mapped.begin();
      ++it;
      CHECK(**it == 3);
      CHECK(**it == 3);
      CHECK((shard.position() == ShardPosition{0, 6}));
      ++it;
      ++it;
      CHECK(it == mapped.end());
    }
    for (auto const& none : shard.batches({.batch_size = 3, .start = {1, 0}}).map(pointer)) CHECK(none == nullptr);
  });
}

TEST_CASE("options out of range are refused before a thread is started") {
  run_once({.workers = 1, .datasets = train_dataset(9)}, [](TorchContext& ctx) {
    auto shard = ctx.dataset_shard("train");
    auto const range = shard.batches({});
    check_contains(thrown_error([&] { (void)range.map(floats_of, {.threads = -2}); }),
                   "PrefetchOptions::threads: must not be negative (got -2)");
  });
}
