// SPDX-License-Identifier: Apache-2.0
#include <raytrain/backend/mpi.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <cereal/cereal.hpp>

#include <raytrain/collective/buffer.hpp>
#include <raytrain/trainer.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/thrown_error.hpp"

namespace {

using namespace raytrain;
using raytrain::testing::check_contains;
using raytrain::testing::TemporaryFolder;
using raytrain::testing::thrown_error;

template <class R>
concept CanBeSummed = requires(MpiContext& ctx, R&& values) {
  ctx.sum(std::forward<R>(values));
};
static_assert(CanBeSummed<std::vector<float>&> && CanBeSummed<std::array<std::uint8_t, 3>&>);
static_assert(CanBeSummed<std::span<double>> && CanBeSummed<Buffer<Float16>&> && CanBeSummed<double>);
static_assert(!CanBeSummed<std::vector<float> const&> && !CanBeSummed<std::span<float const>>);  // the result is lost
static_assert(!CanBeSummed<std::vector<float>> && !CanBeSummed<std::vector<bool>&> && !CanBeSummed<bool>);

using Train = std::function<void(MpiContext&)>;

auto run_in(TemporaryFolder const& folder, int workers, Train const& train) -> Result {
  return Trainer<MpiBackend>{
      train, {.scaling = {.num_workers = workers}, .run = {.name = "run", .storage_path = folder.path()}}}
      .fit();
}

void on_workers(int workers, Train const& train) {
  TemporaryFolder const folder;
  CHECK(run_in(folder, workers, train).state == RunState::finished);
}

struct Epoch {
  int epoch = 0;
  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(epoch));
  }
};
struct Step {
  int step = 0;
  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(step));
  }
};

}  // namespace

TEST_CASE("replicate gives every worker root's array") {
  on_workers(3, [](MpiContext& ctx) {
    auto const rank = static_cast<float>(ctx.world_rank().value);
    std::vector<float> weights(5, rank);
    ctx.replicate(weights);
    CHECK(weights == std::vector<float>(5, 0));
    std::array<std::int64_t, 2> pair{static_cast<std::int64_t>(rank), 7};
    ctx.replicate(pair, Rank{2});
    CHECK(pair == std::array<std::int64_t, 2>{2, 7});
  });
}

TEST_CASE("arrays are averaged, summed and compared in place, numbers by value") {
  on_workers(4, [](MpiContext& ctx) {
    auto const rank = static_cast<int>(ctx.world_rank().value);
    auto gradient = ctx.collective().allocate<float>(3);
    gradient[1] = static_cast<float>(rank);
    ctx.average(gradient);
    CHECK(gradient[0] == 0.0F);
    CHECK(gradient[1] == 1.5F);

    std::vector<int> values{rank, -rank, 1};
    ctx.sum(std::span{values}.first(2));
    CHECK(values == std::vector<int>{6, -6, 1});
    values = {rank, -rank};
    ctx.min(values);
    CHECK(values == std::vector<int>{0, -3});
    values = {rank, -rank};
    ctx.max(values);
    CHECK(values == std::vector<int>{3, 0});

    CHECK(ctx.average(0.5 * rank) == 0.75);
    CHECK(ctx.sum(std::uint64_t{1} << 40U) == std::uint64_t{1} << 42U);
    CHECK(ctx.min(rank) == 0);
    CHECK(ctx.max(static_cast<float>(rank)) == 3.0F);
  });
}

TEST_CASE("arrays of different sizes are the same error on all workers") {
  TemporaryFolder const folder;
  Trainer<MpiBackend> trainer{[](MpiContext& ctx) {
                                std::vector<float> values(ctx.world_rank().value + 1);
                                auto const text = thrown_error([&] { ctx.sum(values); });
                                check_contains(text, "rank_mismatch: ");
                              },
                              {.scaling = {.num_workers = 2}, .run = {.name = "run", .storage_path = folder.path()}}};
  CHECK(trainer.fit().state == RunState::finished);
}

TEST_CASE("arrays are restored from the newest checkpoint, with the epoch to begin with") {
  TemporaryFolder const folder;
  std::vector<float> const weights{1.5F, std::numeric_limits<float>::infinity(), -0.0F};
  std::array<std::uint64_t, 1> const count{1ULL << 63U};
  std::vector<double> const none;
  run_in(folder, 2, [&](MpiContext& ctx) {
    auto mine = weights;
    CHECK(ctx.restore({{"weights", mine}}) == 0);
    CHECK(mine == weights);
    for (auto epoch = 0; epoch < 3; ++epoch) {
      ctx.report(Epoch{epoch}, save({{"weights", weights}, {"deep/count", count}, {"none", none}}));
    }
  });
  run_in(folder, 2, [&](MpiContext& ctx) {
    std::vector<float> mine(3);
    std::array<std::uint64_t, 1> number{};
    std::vector<double> empty;
    CHECK(ctx.restore({{"weights", mine}, {"deep/count", number}, {"none", empty}}) == 3);
    CHECK(mine == weights);
    CHECK(number == count);
  });
}

TEST_CASE("a run that begins with another run's arrays begins at epoch 0, and then goes on from its own") {
  TemporaryFolder const folder;
  TemporaryFolder const other;
  std::vector<float> values{7, 8};
  auto const base = run_in(other, 1, [&](MpiContext& ctx) {
    for (auto epoch = 0; epoch < 3; ++epoch) ctx.report(Epoch{epoch}, save({{"values", values}}));
  });
  for (auto const expected : {0, 1}) {
    Train const train = [&](MpiContext& ctx) {
      std::vector<float> mine(2);
      CHECK(ctx.restore({{"values", mine}}) == expected);
      CHECK(mine == values);
      ctx.report(Epoch{expected}, save({{"values", values}}));
    };
    Trainer<MpiBackend>{
        train,
        {.run = {.name = "run", .storage_path = folder.path(), .resume_from_checkpoint = base.checkpoint().value()}}}
        .fit();
  }
}

TEST_CASE("early stopping goes on from an array of a checkpoint") {
  TemporaryFolder const folder;
  std::vector<int> epochs;
  for (auto const most : {2, 9}) {
    run_in(folder, 2, [&](MpiContext& ctx) {
      EarlyStopping stopping{{.patience = 3}};
      std::vector<double> weights{1};
      auto epoch = ctx.restore({{"weights", weights}, {"early_stopping", stopping.state()}});
      for (; epoch < most && !stopping.is_over(); ++epoch) {
        if (ctx.world_rank() == Rank{0}) epochs.push_back(epoch);
        stopping.step(ctx, 1.0 + epoch);
        ctx.report(Epoch{epoch}, save({{"weights", weights}, {"early_stopping", stopping.state()}}));
      }
    });
  }
  CHECK(epochs == std::vector{0, 1, 2, 3});
}

TEST_CASE("without a metric named epoch, as many reports as there were are done") {
  TemporaryFolder const folder;
  std::vector<float> values(2);
  auto const train = [&](int expected) {
    return [&values, expected](MpiContext& ctx) {
      auto mine = values;
      CHECK(ctx.restore({{"values", mine}}) == expected);
      ctx.report(Step{7}, save({{"values", values}}));
      ctx.report(Step{9}, save({{"values", values}}));
    };
  };
  run_in(folder, 1, train(0));
  run_in(folder, 1, train(2));
}

TEST_CASE("an array of another type or size is refused, and stays as it was") {
  TemporaryFolder const folder;
  std::vector<float> const weights{1, 2, 3};
  auto const result = run_in(folder, 1, [&](MpiContext& ctx) { ctx.report(Epoch{0}, save({{"weights", weights}})); });
  auto const checkpoint = result.checkpoint().value();
  std::vector<float> longer(4, 7);
  auto const text = thrown_error([&] { load(checkpoint, {{"weights", longer}}); });
  check_contains(text, "invalid_call: loading ");
  check_contains(text, "weights.npy: it holds {'descr': '<f4', 'fortran_order': False, 'shape': (3,), }");
  check_contains(text, "and the array takes {'descr': '<f4', 'fortran_order': False, 'shape': (4,), }; give an array");
  CHECK(longer == std::vector<float>(4, 7));
  std::vector<std::int32_t> integers(3);
  check_contains(thrown_error([&] { load(checkpoint, {{"weights", integers}}); }), "the array takes {'descr': '<i4'");
  std::vector<float> other(3);
  check_contains(thrown_error([&] { load(checkpoint, {{"bias", other}}); }), "not_found: ");
}

TEST_CASE("a file that is no such array is refused") {
  TemporaryFolder const folder;
  auto const result = run_in(folder, 1, [&](MpiContext& ctx) {
    CheckpointDraft draft;
    draft.add("a.npy", std::string_view{"text"});
    draft.add("b.npy", std::string_view{"\x93NUMPY and no header"});
    auto cut = detail::npy_header(ElementType::float32, 1) + "123";
    draft.add("c.npy", std::string_view{cut});
    ctx.report(Epoch{0}, draft);
  });
  auto const checkpoint = result.checkpoint().value();
  std::array<float, 1> value{7};
  for (auto const* const name : {"a", "b"}) {
    check_contains(thrown_error([&] { load(checkpoint, {{name, value}}); }), "it holds no array of NumPy's format");
  }
  check_contains(thrown_error([&] { load(checkpoint, {{"c", value}}); }), "invalid_call: ");
  CHECK(value[0] == 7);
}

// As numpy.save of NumPy 1.24 writes numpy.zeros(7840, 'f4') and the like, but for the numbers.
TEST_CASE("a checkpoint within a step of virtual shards is refused, since its batches would come again") {
  TemporaryFolder const folder;
  auto const run = [&](bool ends_step) {
    Trainer<MpiBackend> trainer{[&](MpiContext& ctx) {
                                  auto shard = ctx.dataset_shard("train");
                                  for (auto const& batch : shard.batches({.batch_size = 2})) {
                                    if (batch.ends_step() == ends_step) ctx.report(Epoch{0}, CheckpointDraft{});
                                  }
                                },
                                {.scaling = {.num_workers = 2, .virtual_shards = 4},
                                 .run = {.name = "run", .storage_path = folder.path()},
                                 .datasets = {{"train", Dataset::from_columns({{"x", std::vector<float>(40)}})}}}};
    return trainer.fit().history.size();
  };
  check_contains(thrown_error([&] { return run(false); }),
                 "a checkpoint of virtual shards: is asked for within a step, whose batches come again when the run "
                 "goes on from it; report it, or hand it over, behind a batch of which ends_step() is true");
  CHECK(run(true) == 5);
}

TEST_CASE("an array is stored as NumPy stores it") {
  auto const header = detail::npy_header(ElementType::float32, 7840);
  CHECK(header.size() == 128);
  CHECK(header.substr(0, 10) == std::string_view{"\x93NUMPY\x01\x00\x76\x00", 10});
  CHECK(header.substr(10, 61) == "{'descr': '<f4', 'fortran_order': False, 'shape': (7840,), } ");
  CHECK(header.substr(71) == std::string(56, ' ') + "\n");
  check_contains(detail::npy_header(ElementType::uint8, 0), "'descr': '|u1', 'fortran_order': False, 'shape': (0,), }");
  check_contains(detail::npy_header(ElementType::int64, 1), "'descr': '<i8'");
  check_contains(detail::npy_header(ElementType::float16, 1), "'descr': '<f2'");
  check_contains(detail::npy_header(ElementType::bfloat16, 1), "'descr': '|V2'");
}
