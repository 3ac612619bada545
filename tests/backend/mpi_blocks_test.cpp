// SPDX-License-Identifier: Apache-2.0
// Training functions that go over blocks by themselves.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <cereal/cereal.hpp>

#include <raytrain/backend/mpi.hpp>
#include <raytrain/data/blocks_position.hpp>
#include <raytrain/data/csv.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/trainer.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/thrown_error.hpp"

namespace {

using namespace raytrain;
using namespace raytrain::testing;

struct SumOfRows {
  std::int64_t epoch = 0;
  double sum = 0;
  void serialize(auto& a) { a(CEREAL_NVP(epoch), CEREAL_NVP(sum)); }
};

/// So many rows in two files, x of row i is 2^i.
void write_rows(std::filesystem::path const& folder, int rows) {
  std::filesystem::create_directory(folder);
  std::ofstream first{folder / "part-0.csv"};
  std::ofstream second{folder / "part-1.csv"};
  first << "x\n";
  second << "x\n";
  for (auto row = 0; row < rows; ++row) (row < rows / 3 ? first : second) << (std::uint64_t{1} << row) << '\n';
}

struct KeepStop : Callback {
  void on_start(RunInfo const& info) override { stop = info.request_stop; }
  std::function<void()> stop;
};

/// Adds each row's x, which the report and the checkpoint have. `step` is called behind each step, with its number in
/// this start.
struct Adder {
  std::filesystem::path rows;
  int epochs = 3;
  std::function<void(MpiContext&, BlocksPosition const&, std::vector<double>&, int)> step;

  void operator()(MpiContext& ctx) const {
    std::vector<double> sum(1);
    BlocksPosition position;
    auto steps = 0;
    for (auto epoch = ctx.restore(position, {{"sum", sum}}); epoch < epochs; position = {.epoch = ++epoch}) {
      auto blocks = csv_blocks(rows, {}, 1).shard(ctx.world_rank(), ctx.world_size());
      blocks.begin_at(position);
      for (auto block = blocks.next(); ctx.sum(block ? 1.0 : 0.0) > 0; block = blocks.next()) {
        sum[0] += ctx.sum(block ? static_cast<double>(block->column("x").as<float>()[0]) : 0.0);
        position = blocks.position();
        step(ctx, position, sum, ++steps);
      }
    }
    ctx.report(SumOfRows{epochs, sum[0]}, save(position, {{"sum", sum}}));
  }
};

}  // namespace

TEST_CASE("a training on blocks that fails again and again has each row of each epoch once") {
  TemporaryFolder const folder;
  write_rows(folder.path() / "rows", 13);
  auto failures = 0;  // of rank 0
  Adder const train{.rows = folder.path() / "rows",
                    .step = [&](MpiContext& ctx, BlocksPosition const& position, std::vector<double>& sum, int steps) {
                      ctx.report(SumOfRows{position.epoch, sum[0]}, save(position, {{"sum", sum}}));
                      if (ctx.world_rank() != Rank{0} || failures == 6 || steps != 1 + failures) return;
                      ++failures;
                      throw std::runtime_error{fmt::format("failure {}", failures)};
                    }};
  auto const result =
      Trainer<MpiBackend>{train,
                          {.scaling = {.num_workers = 2},
                           .run = {.name = "run", .storage_path = folder.path(), .failure = {.max_failures = 6}}}}
          .fit();
  CHECK(result.state == RunState::finished);
  CHECK(failures == 6);
  std::vector<double> sum(1);
  load(result.checkpoint().value(), {{"sum", sum}});
  CHECK(sum[0] == 3.0 * ((1U << 13U) - 1));
}

TEST_CASE(
    "a training on blocks goes on with other numbers of workers, each row once, and begins an epoch anew where it "
    "cannot") {
  TemporaryFolder const folder;
  write_rows(folder.path() / "rows", 12);
  auto stop_at = 0;
  auto const stopper = std::make_shared<KeepStop>();
  Adder const train{.rows = folder.path() / "rows",
                    .epochs = 1,
                    .step = [&](MpiContext& ctx, BlocksPosition const& position, std::vector<double>& sum, int steps) {
                      if (steps != stop_at) return;
                      ctx.barrier();
                      if (ctx.world_rank() == Rank{0}) stopper->stop();
                      while (!ctx.stop_requested()) ctx.barrier();
                      ctx.hand_over(save(position, {{"sum", sum}}));
                    }};
  auto const fit = [&](int workers, int stop) {
    stop_at = stop;
    TrainerConfig<MpiBackend> config{.scaling = {.num_workers = workers},
                                     .run = {.name = "run", .storage_path = folder.path()},
                                     .callbacks = {stopper}};
    return Trainer<MpiBackend>{train, config}.fit();
  };
  auto const sum_in = [](Result const& result) {
    std::vector<double> sum(1);
    load(result.checkpoint().value(), {{"sum", sum}});
    return sum[0];
  };
  CHECK(sum_in(fit(2, 2)) == 0b1111);
  CHECK(sum_in(fit(3, 1)) == 0b111'1111);
  CHECK(sum_in(fit(1, 2)) == 0b1'1111'1111);
  CHECK(sum_in(fit(2, 2)) == 0b1111'1111'1111);  // of the last round rank 1 has no block
  auto const again = fit(3, 1);
  CHECK(sum_in(again) == 0b1111'1111'1111 + 0b111);
  CHECK(std::ranges::count(again.warnings,
                           "the 2 workers of the checkpoint had not taken equally many blocks, and now there are 3: "
                           "epoch 0 begins anew, with blocks that were taken, too") == 1);
  auto const result = fit(3, 0);
  CHECK(result.state == RunState::finished);
  CHECK(sum_in(result) == 2.0 * 0b1111'1111'1111);
}

TEST_CASE("a training whose files were changed since its checkpoint says so") {
  TemporaryFolder const folder;
  write_rows(folder.path() / "rows", 4);
  auto fails = true;
  Adder const train{.rows = folder.path() / "rows",
                    .step = [&](MpiContext& ctx, BlocksPosition const& position, std::vector<double>& sum, int) {
                      ctx.report(SumOfRows{position.epoch, sum[0]}, save(position, {{"sum", sum}}));
                      if (fails) throw std::runtime_error{"the disk is on fire"};
                    }};
  auto const fit = [&]() -> std::string {
    try {
      (void)Trainer<MpiBackend>{train,
                                {.scaling = {.num_workers = 1}, .run = {.name = "run", .storage_path = folder.path()}}}
          .fit();
    } catch (TrainingFailed const& failed) {
      return failed.what();
    }
    return "no failure";
  };
  check_contains(fit(), "the disk is on fire");
  fails = false;
  write_rows(folder.path() / "rows", 5);
  check_contains(fit(), "DatasetBlocks::begin_at: the position is 1 blocks into epoch 0 of another source: CSV");
}

TEST_CASE("a rank whose blocks end before those of the others ends the training, which says what each rank did") {
  TemporaryFolder const folder;
  auto const train = [](MpiContext& ctx) {
    std::vector<double> sum(1);
    auto left = ctx.world_rank() == Rank{0} ? 3 : 2;
    DatasetBlocks blocks{"a simulation", [&]() -> std::optional<Dataset> {
                           if (left-- == 0) return std::nullopt;
                           return Dataset::from_columns({{"x", std::vector<float>{1}}});
                         }};
    for (auto const& block : blocks) sum[0] += ctx.sum(static_cast<double>(block.rows()));
    ctx.average(sum);
    ctx.report(SumOfRows{0, sum[0]}, save({{"sum", sum}}));
  };
  std::string text;
  try {
    (void)Trainer<MpiBackend>{train,
                              {.scaling = {.num_workers = 2}, .run = {.name = "run", .storage_path = folder.path()}}}
        .fit();
  } catch (TrainingFailed const& failed) {
    text = failed.what();
  }
  check_contains(text,
                 "rank 0 calls all_reduce(1 x float64, sum), but rank 1 calls all_reduce(1 x float64, average); make "
                 "every rank call the same operations in the same order");
}
