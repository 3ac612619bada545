// SPDX-License-Identifier: Apache-2.0
// What a rank does that waits in NCCL, by a library that only pretends to be it: no GPU is needed.
#include <torch/torch.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/backend/torch/detail/nccl_arrays.hpp>
#include <raytrain/collective/local.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/launch/worker_link.hpp>
#include <raytrain/train/worker_setup.hpp>
#include <raytrain/trainer.hpp>

#include "../support/temporary_folder.hpp"

namespace {

using raytrain::Error;
using raytrain::LocalCollective;
using raytrain::LocalGroup;
using raytrain::Rank;
using raytrain::ReduceOp;
using raytrain::Stopped;
using raytrain::WaitLimits;
using raytrain::WorldSize;
using raytrain::detail::NcclArrays;
using raytrain::detail::NcclLibrary;
using raytrain::testing::TemporaryFolder;

using SteadyClock = std::chrono::steady_clock;
constexpr std::chrono::seconds longest_call{10};  // of the library that pretends, where nobody comes

/// A library whose peers may never arrive: then what was begun stays in progress, until it is aborted.
struct Pretended {
  bool connects = true;
  bool reduces = true;
  bool finalizes = true;
  int ranks_of_abort = 1;                // each rank's abort returns when so many have called it, as NCCL's may
  std::optional<std::uint32_t> failing;  // this rank's operations fail
  std::atomic<int> aborts{0};
  std::atomic<int> pending_aborts{0};
};
Pretended pretended;
thread_local int nccl_state = NcclLibrary::success;  // of what the rank has begun last
thread_local std::uint32_t nccl_rank = 0;

auto nccl_state_after(bool ends) -> int { return ends ? NcclLibrary::success : NcclLibrary::in_progress; }

auto abort_with_others(NcclLibrary::Comm) -> int {
  auto const end = SteadyClock::now() + longest_call;
  ++pretended.pending_aborts;  // before it is counted, so that nobody takes it for over
  ++pretended.aborts;
  while (pretended.aborts < pretended.ranks_of_abort && SteadyClock::now() < end) std::this_thread::yield();
  --pretended.pending_aborts;
  return NcclLibrary::success;
}

/// How many aborts there are, once there are as many as that: they are on threads of their own.
auto aborts_of(int expected) -> int {
  auto const end = SteadyClock::now() + longest_call;
  while ((pretended.aborts < expected || pretended.pending_aborts > 0) && SteadyClock::now() < end) {
    std::this_thread::yield();
  }
  return pretended.aborts;
}

auto pretended_library(bool connects, bool reduces) -> NcclLibrary {
  constexpr int system_error = 2;
  pretended.connects = connects;
  pretended.reduces = reduces;
  pretended.finalizes = true;
  pretended.ranks_of_abort = 1;
  pretended.failing.reset();
  pretended.aborts = 0;
  NcclLibrary library;
  library.get_unique_id = [](NcclLibrary::UniqueId*) { return NcclLibrary::success; };
  library.comm_init_rank_config = [](NcclLibrary::Comm* comm, int, NcclLibrary::UniqueId, int rank,
                                     NcclLibrary::Config*) {
    *comm = &pretended;
    nccl_rank = static_cast<std::uint32_t>(rank);
    return nccl_state = nccl_state_after(pretended.connects);
  };
  library.comm_get_async_error = [](NcclLibrary::Comm, int* now) {
    *now = nccl_state;
    return NcclLibrary::success;
  };
  library.comm_finalize = [](NcclLibrary::Comm) { return nccl_state = nccl_state_after(pretended.finalizes); };
  library.comm_destroy = [](NcclLibrary::Comm) { return NcclLibrary::success; };
  library.comm_abort = abort_with_others;
  library.get_error_string = [](int) { return "unhandled system error"; };
  library.get_last_error = [](NcclLibrary::Comm) { return "a cable was pulled"; };
  library.all_reduce = [](void const*, void*, std::size_t, int, int, NcclLibrary::Comm, void*) {
    if (pretended.failing == nccl_rank) return system_error;
    return nccl_state = nccl_state_after(pretended.reduces);
  };
  return library;
}

struct RanksOptions {
  WaitLimits limits{};
  std::stop_source stop{};
  std::stop_source abort{};         ///< Requested after ten seconds.
  bool aborts_for_failure = false;  ///< Also when a rank has failed, as the controller does.
};

/// What each of two ranks is told that calls `work(arrays)`.
template <class Work>
auto told_by_ranks(NcclLibrary const& library, RanksOptions options, Work const& work) -> std::vector<std::string> {
  auto const group = std::make_shared<LocalGroup>(WorldSize{2});
  std::vector<std::future<std::string>> ranks;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    ranks.push_back(std::async(std::launch::async, [&, rank]() -> std::string {
      try {
        NcclArrays arrays{{.library = library,
                           .through_memory = std::make_shared<LocalCollective>(group, Rank{rank}),
                           .device = at::kCPU,
                           .limits = options.limits,
                           .stop = options.stop.get_token(),
                           .abort = options.abort.get_token()}};
        work(arrays);
      } catch (Error const& error) {
        if (options.aborts_for_failure) options.abort.request_stop();
        return std::string{to_string(error.code())} + ": " + error.what();
      } catch (Stopped const&) {
        return "it was stopped";
      }
      return "nothing";
    }));
  }
  auto const end = SteadyClock::now() + longest_call;
  for (auto const& rank : ranks) {
    if (rank.wait_until(end) == std::future_status::timeout) options.abort.request_stop();
  }
  std::vector<std::string> texts;
  for (auto& rank : ranks) texts.push_back(rank.get());
  return texts;
}

/// Well below every limit of the library that pretends, and of a communicator that ends in order.
constexpr std::chrono::seconds soon{4};

void reduce_some(NcclArrays& arrays) {
  std::vector<float> values(100);
  arrays.all_reduce(values, ReduceOp::sum);
}

constexpr std::chrono::milliseconds nccl_limit{50};
std::string const late_remedy{
    "look at what is done there instead, or allow more time: RunConfig::collective_timeout, WaitLimits::timeout"};

}  // namespace

TEST_CASE("ranks whose peers never arrive while NCCL connects them give up when the collective's time is over") {
  auto const library = pretended_library(false, true);
  auto const texts = told_by_ranks(library, {.limits = {.timeout = nccl_limit}}, reduce_some);
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    CHECK(texts[rank] == "timed_out: connecting by NCCL on cpu on rank " + std::to_string(rank) +
                             ": the others have not come within 50 ms; " + late_remedy);
  }
  CHECK(aborts_of(2) == 2);
}

TEST_CASE("a rank whose operation NCCL never begins is told which, and each later call of it says so") {
  auto const library = pretended_library(true, false);
  std::string const happened{": the others have not come within 50 ms; "};
  auto const texts = told_by_ranks(library, {.limits = {.timeout = nccl_limit}}, [&](NcclArrays& arrays) {
    CHECK_THROWS_AS(reduce_some(arrays), Error);
    arrays.barrier();
  });
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    CHECK(texts[rank] ==
          "timed_out: all_reduce(100 x float32, sum) on rank " + std::to_string(rank) + happened + late_remedy);
  }
  CHECK(aborts_of(2) == 2);
}

TEST_CASE("a rank that waits long in NCCL warns of it once, and goes on when its peers have come") {
  auto const library = pretended_library(false, true);
  std::atomic<int> warnings{0};
  WaitLimits const limits{.warn_after = std::chrono::milliseconds{5}, .on_warning = [&](std::string const& text) {
                            CHECK(text.ends_with(" has waited 5 ms in connecting by NCCL on cpu for the others"));
                            ++warnings;
                            nccl_state = NcclLibrary::success;
                          }};
  CHECK(told_by_ranks(library, {.limits = limits}, reduce_some) == std::vector<std::string>(2, "nothing"));
  CHECK(warnings == 2);
  CHECK(pretended.aborts == 0);
}

TEST_CASE("an abort reaches all ranks of a process that wait in NCCL, where it waits until all of them are aborted") {
  auto const library = pretended_library(true, false);
  pretended.ranks_of_abort = 2;
  std::stop_source abort;
  std::atomic<int> waiting{0};
  WaitLimits const limits{.warn_after = std::chrono::milliseconds{5}, .on_warning = [&](std::string const&) {
                            if (++waiting == 2) abort.request_stop();
                          }};
  auto const begin = SteadyClock::now();
  auto const texts = told_by_ranks(library, {.limits = limits, .abort = abort}, reduce_some);
  CHECK(texts == std::vector<std::string>(2, "it was stopped"));
  CHECK(SteadyClock::now() - begin < soon);
  CHECK(aborts_of(2) == 2);
}

TEST_CASE("a rank that NCCL fails ends with NCCL's last error before the other has left, whose wait ends then") {
  auto const library = pretended_library(true, false);
  pretended.finalizes = false;
  pretended.ranks_of_abort = 2;
  pretended.failing = 1;
  auto const begin = SteadyClock::now();
  auto const texts = told_by_ranks(library, {.aborts_for_failure = true}, reduce_some);
  CHECK(SteadyClock::now() - begin < soon);
  CHECK(texts[0] == "it was stopped");
  CHECK(texts[1] ==
        "backend: all_reduce(100 x float32, sum) on rank 1: unhandled system error: a cable was pulled; look at what "
        "ended another rank; NCCL_DEBUG=WARN shows what NCCL found, and TorchConfig::gpu_exchange = GpuExchange::cpu "
        "does without it");
  CHECK(aborts_of(2) == 2);
}

TEST_CASE("ranks that a stop ends leave while NCCL still waits for others") {
  auto const library = pretended_library(true, true);
  pretended.finalizes = false;
  std::stop_source stop;
  auto const begin = SteadyClock::now();
  auto const texts = told_by_ranks(library, {.stop = stop}, [&](NcclArrays& arrays) {
    reduce_some(arrays);
    stop.request_stop();
  });
  CHECK(SteadyClock::now() - begin < soon);
  CHECK(texts == std::vector<std::string>(2, "nothing"));
  CHECK(aborts_of(2) == 2);
}

namespace {

NcclLibrary const* library_of_run = nullptr;

/// A worker whose arrays NCCL exchanges.
class NcclContext : public raytrain::TrainContext {
 public:
  explicit NcclContext(raytrain::WorkerSetup setup) : NcclContext{setup.link, setup} {}

  NcclArrays arrays;

 private:
  NcclContext(raytrain::WorkerLink const& link, raytrain::WorkerSetup& setup)
      : TrainContext{std::move(setup)},
        arrays{{.library = *library_of_run,
                .through_memory = std::shared_ptr<raytrain::Collective>{std::shared_ptr<void>{}, &collective()},
                .device = at::kCPU,
                .stop = link.stop_token(),
                .abort = link.aborted()}} {}
};

struct NcclBackend {
  struct Config {};
  using Context = NcclContext;
  static constexpr std::string_view name = "nccl";
  static constexpr raytrain::Launch default_launch = raytrain::Launch::threads;
  explicit NcclBackend(Config const&) {}
  void on_start(raytrain::ScalingConfig const&) {}
  auto make_context(raytrain::WorkerSetup setup) -> Context { return Context{std::move(setup)}; }
  void on_shutdown() noexcept {}
};

}  // namespace

TEST_CASE("a run whose one worker NCCL fails ends soon, though the other waits in NCCL, and says what NCCL did") {
  auto const library = pretended_library(true, false);
  pretended.finalizes = false;
  pretended.ranks_of_abort = 2;
  pretended.failing = 0;
  library_of_run = &library;
  TemporaryFolder const folder;
  raytrain::Trainer<NcclBackend> trainer{
      [](NcclContext& ctx) { reduce_some(ctx.arrays); },
      {.scaling = {.num_workers = 2},
       .run = {.name = "fails", .storage_path = folder.path(), .stop_grace = std::chrono::minutes{1}}}};
  auto const begin = SteadyClock::now();
  std::string text;
  try {
    trainer.fit();
  } catch (raytrain::TrainingFailed const& failed) {
    text = failed.what();
  }
  CHECK(SteadyClock::now() - begin < soon);
  CHECK(text.find("unhandled system error: a cable was pulled") != std::string::npos);
  CHECK(aborts_of(2) == 2);
}
