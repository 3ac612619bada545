// SPDX-License-Identifier: Apache-2.0
// What a rank does that waits in NCCL, by a library that only pretends to be it: no GPU is needed.
#include <torch/torch.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/backend/torch/detail/nccl_arrays.hpp>
#include <raytrain/collective/local.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>

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

/// A library whose peers may never arrive: then what was begun stays in progress, until it is aborted.
struct Pretended {
  bool connects = true;
  bool reduces = true;
  std::atomic<int> aborts{0};
};
Pretended pretended;
thread_local int nccl_state = NcclLibrary::success;  // of what the rank has begun last

auto nccl_state_after(bool ends) -> int { return ends ? NcclLibrary::success : NcclLibrary::in_progress; }

auto pretended_library(bool connects, bool reduces) -> NcclLibrary {
  pretended.connects = connects;
  pretended.reduces = reduces;
  pretended.aborts = 0;
  NcclLibrary library;
  library.get_unique_id = [](NcclLibrary::UniqueId*) { return NcclLibrary::success; };
  library.comm_init_rank_config = [](NcclLibrary::Comm* comm, int, NcclLibrary::UniqueId, int, NcclLibrary::Config*) {
    *comm = &pretended;
    return nccl_state = nccl_state_after(pretended.connects);
  };
  library.comm_get_async_error = [](NcclLibrary::Comm, int* now) {
    *now = nccl_state;
    return NcclLibrary::success;
  };
  library.comm_finalize = [](NcclLibrary::Comm) { return NcclLibrary::success; };
  library.comm_destroy = [](NcclLibrary::Comm) { return NcclLibrary::success; };
  library.comm_abort = [](NcclLibrary::Comm) {
    ++pretended.aborts;
    return NcclLibrary::success;
  };
  library.all_reduce = [](void const*, void*, std::size_t, int, int, NcclLibrary::Comm, void*) {
    return nccl_state = nccl_state_after(pretended.reduces);
  };
  return library;
}

/// What each of two ranks is told that calls `work(arrays)`. After ten seconds it is stopped.
template <class Work>
auto told_by_ranks(NcclLibrary const& library, WaitLimits const& limits, Work const& work) -> std::vector<std::string> {
  auto const group = std::make_shared<LocalGroup>(WorldSize{2});
  std::stop_source abort;
  std::vector<std::future<std::string>> ranks;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    ranks.push_back(std::async(std::launch::async, [&, rank]() -> std::string {
      try {
        NcclArrays arrays{{.library = library,
                           .through_memory = std::make_shared<LocalCollective>(group, Rank{rank}),
                           .device = at::kCPU,
                           .limits = limits,
                           .abort = abort.get_token()}};
        work(arrays);
      } catch (Error const& error) {
        return std::string{to_string(error.code())} + ": " + error.what();
      } catch (Stopped const&) {
        return "it was stopped";
      }
      return "nothing";
    }));
  }
  auto const end = std::chrono::steady_clock::now() + std::chrono::seconds{10};
  for (auto const& rank : ranks) {
    if (rank.wait_until(end) == std::future_status::timeout) abort.request_stop();
  }
  std::vector<std::string> texts;
  for (auto& rank : ranks) texts.push_back(rank.get());
  return texts;
}

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
  auto const texts = told_by_ranks(library, {.timeout = nccl_limit}, reduce_some);
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    CHECK(texts[rank] == "timed_out: connecting by NCCL on cpu on rank " + std::to_string(rank) +
                             ": the others have not come within 50 ms; " + late_remedy);
  }
  CHECK(pretended.aborts == 2);
}

TEST_CASE("a rank whose operation NCCL never begins is told which, and each later call of it says so") {
  auto const library = pretended_library(true, false);
  std::string const happened{": the others have not come within 50 ms; "};
  auto const texts = told_by_ranks(library, {.timeout = nccl_limit}, [&](NcclArrays& arrays) {
    CHECK_THROWS_AS(reduce_some(arrays), Error);
    arrays.barrier();
  });
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    CHECK(texts[rank] ==
          "timed_out: all_reduce(100 x float32, sum) on rank " + std::to_string(rank) + happened + late_remedy);
  }
  CHECK(pretended.aborts == 2);
}

TEST_CASE("a rank that waits long in NCCL warns of it once, and goes on when its peers have come") {
  auto const library = pretended_library(false, true);
  std::atomic<int> warnings{0};
  WaitLimits const limits{.warn_after = std::chrono::milliseconds{5}, .on_warning = [&](std::string const& text) {
                            CHECK(text.ends_with(" has waited 5 ms in connecting by NCCL on cpu for the others"));
                            ++warnings;
                            nccl_state = NcclLibrary::success;
                          }};
  CHECK(told_by_ranks(library, limits, reduce_some) == std::vector<std::string>(2, "nothing"));
  CHECK(warnings == 2);
  CHECK(pretended.aborts == 0);
}
