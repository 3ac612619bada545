// SPDX-License-Identifier: Apache-2.0
// Datasets of LibTorch's, divided among the workers.
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
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

/// c10's or std's, as LibTorch is old or new.
using OptionalSize = decltype(std::declval<torch::data::datasets::MNIST const&>().size());

/// Example i is a vector of i, whose target is i. Each copy has state of its own, as a file that it reads would be.
struct Numbers : torch::data::datasets::Dataset<Numbers> {
  explicit Numbers(std::size_t size) : count{size} {}
  auto get(std::size_t index) -> torch::data::Example<> override {
    scratch = torch::full({4}, static_cast<double>(index));
    return {scratch.clone(), torch::tensor(static_cast<std::int64_t>(index))};
  }
  [[nodiscard]] auto size() const -> OptionalSize override { return count; }
  std::size_t count;
  torch::Tensor scratch{};
};

struct OfUnknownSize : Numbers {
  OfUnknownSize() : Numbers{4} {}
  [[nodiscard]] auto size() const -> OptionalSize override { return {}; }
};

struct AddNoise : torch::data::transforms::TensorTransform<> {
  auto operator()(torch::Tensor data) -> torch::Tensor override { return data + torch::rand(data.sizes()); }
};

auto stacked(std::size_t size) { return Numbers{size}.map(torch::data::transforms::Stack<>{}); }

auto noisy_numbers(std::size_t size) { return Numbers{size}.map(AddNoise{}).map(torch::data::transforms::Stack<>{}); }

auto indices_of(torch::Tensor const& target) -> std::vector<std::int64_t> {
  auto const* const first = target.data_ptr<std::int64_t>();
  return {first, first + target.numel()};
}

struct LoaderRun {
  PrefetchOptions prefetch{};
  std::vector<int> failing{};   ///< Steps after which the run fails, and is started again.
  std::vector<int> workers{2};  ///< Of each start; of the last one from then on.
  int virtual_shards = 0;
  std::vector<std::size_t> examples{50};  ///< As workers.
};

struct Trained {
  Tensors parameters{};
  std::vector<std::int64_t> indices{};  ///< That were trained on in epoch 1, of each step in the last start.
};

/// Trains two epochs on noisy examples, with a checkpoint in every third step.
auto trained_on_loader(LoaderRun run) -> Trained {
  TemporaryFolder const folder;
  Trained result;
  std::mutex mutex;
  std::map<int, std::map<std::size_t, std::vector<std::int64_t>>> by_step;  // and start
  std::size_t start = 0;
  auto const train = [&](TorchContext& ctx) {
    auto model = ctx.prepare_model([] {
      return torch::nn::Sequential{torch::nn::Linear{4, 8}, torch::nn::Dropout{0.5}, torch::nn::Linear{8, 1}};
    });
    torch::optim::Adam optimizer{model->parameters(), 1e-2};
    auto loader = ctx.data_loader("numbers", noisy_numbers(run.examples[std::min(start, run.examples.size() - 1)]));
    int step = 0;
    TrainingState state{model, optimizer, loader, {"step", step}};
    for (auto epoch = ctx.restore(state); epoch < 2; ++epoch) {
      for (auto batch : loader.batches({.batch_size = 4, .epoch = epoch}, run.prefetch)) {
        if (epoch == 1) {
          std::lock_guard const lock{mutex};
          for (auto const index : indices_of(batch.target)) by_step[step][start].push_back(index);
        }
        auto const loss = model->forward(batch.data / 50).square().mean();
        loss.backward();
        if (!ctx.accumulate(1)) continue;
        optimizer.step();
        optimizer.zero_grad();
        ++step;
        if (step % 3 == 0) {
          ctx.report(Epoch{epoch, loss.template item<double>()}, save(state));
          if (ctx.world_rank() == Rank{0} && !run.failing.empty() && step == run.failing.front())
            throw std::runtime_error{"as planned"};
        }
      }
      ctx.report(Epoch{epoch, 0}, save(state));
    }
    if (ctx.world_rank() == Rank{0}) result.parameters = copies(model->parameters());
  };
  auto const fit = [&] {
    Trainer<TorchBackend> trainer{train,
                                  {.scaling = {.num_workers = run.workers[std::min(start, run.workers.size() - 1)],
                                               .resources_per_worker = {.cpus = 1},
                                               .virtual_shards = run.virtual_shards},
                                   .run = {.name = "run", .storage_path = folder.path(), .handle_signals = false}}};
    trainer.fit();
  };
  for (; !run.failing.empty(); ++start) {
    CHECK_THROWS_AS(fit(), TrainingFailed);
    run.failing.erase(run.failing.begin());
  }
  fit();
  for (auto const& [step, by_start] : by_step) {
    auto const& indices = by_start.rbegin()->second;
    result.indices.insert(result.indices.end(), indices.begin(), indices.end());
  }
  return result;
}

/// What `make_loaders` is refused with, on each of two ranks.
auto refusals(std::function<void(TorchContext&)> const& make_loaders, Datasets const& datasets = {})
    -> std::vector<std::string> {
  std::vector<std::string> texts(2);
  run_once({.workers = 2, .datasets = datasets},
           [&](TorchContext& ctx) { texts[ctx.world_rank().value] = thrown_error([&] { make_loaders(ctx); }); });
  return texts;
}

}  // namespace

TEST_CASE("a loader's examples are in each epoch those of a split dataset of as many rows, for every rank") {
  constexpr std::size_t size = 50;
  std::vector<std::int64_t> rows(size);
  for (std::size_t i = 0; i < size; ++i) rows[i] = static_cast<std::int64_t>(i);
  for (auto const workers : {1, 3}) {
    std::mutex mutex;
    std::vector<std::set<std::int64_t>> taken(2);
    run_once({.workers = workers, .datasets = {{"train", Dataset::from_columns({{"row", rows}})}}},
             [&](TorchContext& ctx) {
               auto shard = ctx.dataset_shard("train");
               auto loader = ctx.data_loader("numbers", stacked(size));
               CHECK(loader.rows() == shard.rows());
               for (auto const epoch : {0, 1}) {
                 BatchOptions options{.batch_size = 4, .epoch = epoch, .shuffle = epoch == 1};
                 if (options.shuffle) options.shuffle_window = 6;
                 auto batches = loader.batches(options, {.threads = 2});
                 auto const expected = shard.batches(options);
                 REQUIRE(batches.size() == expected.size());
                 std::size_t i = 0;
                 for (auto batch : batches) {
                   CHECK(torch::equal(batch.target, expected[i]["row"]));
                   CHECK(torch::equal(batch.data, batch.target.to(torch::kFloat).unsqueeze(1).expand({-1, 4})));
                   CHECK((loader.position() == expected[i].rows().next_position()));
                   ++i;
                   std::lock_guard const lock{mutex};
                   for (auto const index : indices_of(batch.target))
                     CHECK(taken[static_cast<std::size_t>(epoch)].insert(index).second);
                 }
               }
             });
    for (auto const& all : taken) CHECK(all.size() == size / static_cast<std::size_t>(workers) * workers);
  }
}

TEST_CASE(
    "without a transform that stacks them a batch is the vector of its examples, and get_batch may be the dataset's "
    "own") {
  struct OwnBatches : torch::data::datasets::BatchDataset<OwnBatches, std::int64_t> {
    auto get_batch(at::ArrayRef<std::size_t> indices) -> std::int64_t override {
      return static_cast<std::int64_t>(indices.size());
    }
    [[nodiscard]] auto size() const -> OptionalSize override { return 10; }
  };
  run_once({.workers = 1}, [](TorchContext& ctx) {
    auto numbers = ctx.data_loader("numbers", Numbers{10});
    std::int64_t count = 0;
    for (auto const& examples : numbers.batches({.batch_size = 4, .shuffle = false})) {
      for (auto const& example : examples) CHECK(example.target.template item<std::int64_t>() == count++);
    }
    CHECK(count == 10);
    auto own = ctx.data_loader("own", OwnBatches{});
    std::vector<std::int64_t> sizes;
    for (auto size : own.batches({.batch_size = 4}, {.threads = 0})) sizes.push_back(size);
    CHECK(sizes == std::vector<std::int64_t>{4, 4, 2});
  });
}

TEST_CASE("a training on a loader that fails in the middle of epochs goes on to the bits of an undisturbed one") {
  auto const whole = trained_on_loader({.prefetch = {.threads = 0}});
  CHECK(whole.indices.size() == 50);
  auto const disturbed = trained_on_loader({.prefetch = {.threads = 2, .prefetch_factor = 3}, .failing = {3, 6, 12}});
  CHECK(same_bits(disturbed.parameters, whole.parameters));
}

TEST_CASE("another number of workers goes on in the middle of an epoch with the examples that are left") {
  auto const result = trained_on_loader({.failing = {9}, .workers = {2, 3}});
  CHECK(result.indices.size() >= 48);
  CHECK(std::set(result.indices.begin(), result.indices.end()).size() == result.indices.size());
}

TEST_CASE("with virtual shards a training on a loader has the same bits with any number of workers") {
  auto const alone = trained_on_loader({.workers = {1}, .virtual_shards = 4}).parameters;
  CHECK_FALSE(alone.empty());
  CHECK(same_bits(trained_on_loader({.workers = {3}, .virtual_shards = 4}).parameters, alone));
  CHECK(same_bits(trained_on_loader({.failing = {3}, .workers = {2, 4}, .virtual_shards = 4}).parameters, alone));
}

TEST_CASE("with virtual shards each example is counted once where padding is not") {
  TemporaryFolder const folder;
  std::mutex mutex;
  std::multiset<std::int64_t> counted;
  auto padding = 0;
  Trainer<TorchBackend> trainer{[&](TorchContext& ctx) {
                                  auto loader = ctx.data_loader("numbers", stacked(48));
                                  CHECK_FALSE(ctx.is_padding());
                                  for (auto batch : loader.batches({.batch_size = 4}, {.threads = 1})) {
                                    std::lock_guard const lock{mutex};
                                    padding += ctx.is_padding() ? 1 : 0;
                                    if (ctx.is_padding()) continue;
                                    for (auto const index : indices_of(batch.target)) counted.insert(index);
                                  }
                                },
                                {.scaling = {.num_workers = 2, .virtual_shards = 3},
                                 .run = {.name = "run", .storage_path = folder.path(), .handle_signals = false}}};
  trainer.fit();
  CHECK(padding == 4);
  CHECK(counted.size() == 48);
  CHECK(std::set<std::int64_t>(counted.begin(), counted.end()).size() == 48);
}

TEST_CASE("a position within an epoch is refused for a dataset of another size, and the error has both sizes") {
  try {
    (void)trained_on_loader({.failing = {3}, .workers = {1}, .examples = {50, 51}});
    FAIL_CHECK("must fail");
  } catch (TrainingFailed const& failed) {
    check_contains(failed.failures().front().text(), "in an order that is another one now: of 50 rows");
    check_contains(failed.failures().front().text(), "and now of 51");
  }
}

TEST_CASE("stopped within an epoch of a loader, the next start goes on with the very next batch") {
  struct Stopper : Callback {
    void on_start(RunInfo const& info) override { stop = info.request_stop; }
    std::function<void()> stop;
  };
  auto const indices_with = [](bool stops) {
    TemporaryFolder const folder;
    auto const stopper = std::make_shared<Stopper>();
    std::vector<std::int64_t> indices;
    auto const train = [&](TorchContext& ctx) {
      auto model = ctx.prepare_model([] { return torch::nn::Linear{1, 1}; });
      auto loader = ctx.data_loader("numbers", Numbers{20}.map(torch::data::transforms::Stack<>{}));
      TrainingState state{model, loader};
      for (auto epoch = ctx.restore(state); epoch < 2; ++epoch) {
        for (auto batch : loader.batches({.batch_size = 4, .epoch = epoch}, {.threads = 2})) {
          for (auto const index : indices_of(batch.target)) indices.push_back(index);
          if (stops && indices.size() % 12 == 0) {
            stopper->stop();
            while (!ctx.stop_requested()) ctx.barrier();
            ctx.hand_over(save(state));
          }
        }
        ctx.report(Epoch{epoch, 0}, save(state));
      }
    };
    Trainer<TorchBackend> trainer{train,
                                  {.scaling = {.num_workers = 1},
                                   .run = {.name = "run", .storage_path = folder.path(), .handle_signals = false},
                                   .callbacks = {stopper}}};
    auto starts = 1;
    while (trainer.fit().state == RunState::aborted) ++starts;
    CHECK((starts > 2) == stops);
    return indices;
  };
  CHECK(indices_with(true) == indices_with(false));
}

TEST_CASE("loaders that ranks make in another order, or one beside another operation, are refused on all ranks") {
  auto const swapped = refusals([](TorchContext& ctx) {
    auto const is_first = ctx.world_rank() == Rank{0};
    auto const one = ctx.data_loader(is_first ? "photos" : "paintings", Numbers{8});
    auto const other = ctx.data_loader(is_first ? "paintings" : "photos", Numbers{8});
  });
  auto const sizes =
      refusals([](TorchContext& ctx) { (void)ctx.data_loader("photos", Numbers{8 + ctx.world_rank().value}); });
  auto const beside = refusals([](TorchContext& ctx) {
    if (ctx.world_rank() == Rank{0}) return (void)ctx.data_loader("photos", Numbers{8});
    (void)ctx.all_gather(1);
  });
  for (std::size_t rank = 0; rank < 2; ++rank) {
    check_contains(swapped[rank], "rank_mismatch: making data loader 1");
    check_contains(swapped[rank], "rank 0 makes 'photos' of 8 examples, but rank 1 makes 'paintings' of 8 examples");
    check_contains(sizes[rank], "rank 0 makes 'photos' of 8 examples, but rank 1 makes 'photos' of 9 examples");
    check_contains(beside[rank], "rank_mismatch");
    check_contains(beside[rank], "rank 0 calls all_gather(1 x uint64) to make data loader 1");
    check_contains(beside[rank], "make the same data loaders");
  }
}

TEST_CASE("a loader that cannot be is refused with its name and what to do") {
  auto const refusal = [](std::string const& name, auto dataset) {
    return refusals([&](TorchContext& ctx) { (void)ctx.data_loader(name, dataset); }, {{"train", small_images(8)}})[1];
  };
  check_contains(refusal("photos", Numbers{0}),
                 "invalid_data: making data loader 1: 'photos' of 0 examples: its dataset is empty");
  check_contains(refusal("photos", OfUnknownSize{}),
                 "'photos' of unknown examples: its dataset does not tell its size");
  check_contains(refusal("photos", Numbers{1}), "1 rows leave nothing for each of 2 workers");
  check_contains(refusal("", Numbers{8}), "invalid_call: making data loader 1: '' of 8 examples: its name is empty");
  check_contains(refusal("two\nlines", Numbers{8}), "its name is not UTF-8, or has several lines");
  check_contains(refusal("\xff", Numbers{8}), "its name is not UTF-8, or has several lines");
  check_contains(refusal("train", Numbers{8}), "a dataset of the run has that name");
  auto const again = refusals([](TorchContext& ctx) {
    auto const same = [&] { return ctx.data_loader("photos", Numbers{8}); };
    (void)same();
    (void)same();
    (void)ctx.data_loader("photos", Numbers{9});
  });
  check_contains(again[0],
                 "making data loader 3: 'photos' of 9 examples: the loader before it of that name has 8 examples");
}
