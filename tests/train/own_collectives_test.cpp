// SPDX-License-Identifier: Apache-2.0
// Runs whose workers are threads and exchange by collectives of the program's own.
#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/collective_group.hpp>
#include <raytrain/collective/local.hpp>
#include <raytrain/collective/wait_limits.hpp>
#include <raytrain/collective/wrapped_collective.hpp>

#include "../support/thrown_error.hpp"
#include "minimal_run.hpp"

using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;

namespace {

/// Counts the operations of all workers.
class Counted : public WrappedCollective {
 public:
  Counted(std::unique_ptr<Collective> counted, std::atomic<int>& operations)
      : WrappedCollective{*counted}, counted_{std::move(counted)}, operations_{operations} {}

  [[nodiscard]] auto start(Task const& task) -> Pending override {
    ++operations_;
    return wrapped().start(task);
  }

 private:
  std::unique_ptr<Collective> counted_;
  std::atomic<int>& operations_;
};

auto config_in(TemporaryFolder const& folder, MakeCollectives collectives) -> MinimalConfig {
  return {.scaling = {.num_workers = 2, .collectives = std::move(collectives)},
          .run = {.name = "r", .storage_path = folder.path()}};
}

auto failure_with(MakeCollectives collectives) -> std::string {
  TemporaryFolder const folder;
  return thrown_error([&] {
    return MinimalTrainer{[](TrainContext& ctx) { ctx.barrier(); }, config_in(folder, std::move(collectives))}.fit();
  });
}

}  // namespace

TEST_CASE("workers exchange by collectives of the program's own, which each attempt has anew") {
  TemporaryFolder const folder;
  std::atomic<int> worlds = 0;
  std::atomic<int> operations = 0;
  auto config = config_in(folder, [&](WorldSize size, WaitLimits limits) -> Collectives {
    ++worlds;
    auto const local = local_collectives(size, std::move(limits));
    return {local.group, [&operations, local](Rank rank) {
              return std::make_unique<Counted>(local.collective_of(rank), operations);
            }};
  });
  config.run.failure.max_failures = 1;
  std::atomic<double> sum = 0;
  MinimalTrainer{[&](TrainContext& ctx) {
                   sum = ctx.sum(1.5 + ctx.world_rank().value);
                   if (ctx.attempt() == Attempt{1} && ctx.world_rank() == Rank{1}) throw std::runtime_error{"once"};
                 },
                 config}
      .fit();
  CHECK(sum == 4);
  CHECK(worlds == 2);
  CHECK(operations >= 4);
}

TEST_CASE("what cannot make a worker's collective ends the run with its reason") {
  check_contains(failure_with([](WorldSize size, WaitLimits limits) -> Collectives {
                   return {local_collectives(size, std::move(limits)).group,
                           [](Rank) -> std::unique_ptr<Collective> { throw std::runtime_error{"no such network"}; }};
                 }),
                 "no such network");
  check_contains(failure_with([](WorldSize size, WaitLimits limits) -> Collectives {
                   auto const local = local_collectives(size, std::move(limits));
                   return {local.group, [local](Rank rank) {
                             return rank == Rank{0} ? local.collective_of(rank) : std::unique_ptr<Collective>{};
                           }};
                 }),
                 "ScalingConfig::collectives: made no collective for rank 1");
}

TEST_CASE("a group that does not fit the workers is refused before they start") {
  check_contains(failure_with([](WorldSize, WaitLimits) { return Collectives{}; }),
                 "ScalingConfig::collectives: must make a group of 2 workers and what makes their collectives (got no "
                 "group)");
  check_contains(
      failure_with([](WorldSize, WaitLimits limits) { return local_collectives(WorldSize{3}, std::move(limits)); }),
      "(got a group of 3)");
  check_contains(failure_with([](WorldSize size, WaitLimits limits) -> Collectives {
                   return {local_collectives(size, std::move(limits)).group, {}};
                 }),
                 "(got nothing that makes them)");
}

TEST_CASE("collectives of the program's own are refused where workers are no threads") {
  TemporaryFolder const folder;
  auto config = config_in(folder, local_collectives);
  config.scaling.launch = Launch::processes;
  check_contains(thrown_error([&] {
                   return MinimalTrainer{[](TrainContext&) {}, config}.fit();
                 }),
                 "invalid_config: ScalingConfig::collectives: makes collectives of threads, and workers are processes; "
                 "write .launch = Launch::threads");
}
