// SPDX-License-Identifier: Apache-2.0
#include <raytrain/collective/local.hpp>
#include <raytrain/launch/thread_launcher.hpp>

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <cstdint>
#include <latch>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/core/error.hpp>
#include <raytrain/core/usable_cores.hpp>
#include <raytrain/launch/host.hpp>

#include "../support/function_queue.hpp"

namespace {

using namespace raytrain;

struct Inbox {
  std::mutex mutex;
  std::vector<WorkerMessage> messages;
  FunctionQueue queue{[this](WorkerMessage message) {
    std::lock_guard const lock{mutex};
    messages.push_back(std::move(message));
  }};
};

}  // namespace

TEST_CASE("every worker runs once, on a thread of its own that is named after its rank") {
  ThreadLauncher launcher{{.num_workers = 3}, raytrain::local_collectives};
  Inbox inbox;
  std::mutex mutex;
  std::set<std::thread::id> threads;
  std::set<std::string> names;
  launcher.launch({[&](Worker const&) {
                     char name[16] = {};
                     pthread_getname_np(pthread_self(), name, sizeof name);
                     std::lock_guard const lock{mutex};
                     threads.insert(std::this_thread::get_id());
                     names.insert(name);
                   },
                   inbox.queue});
  launcher.join();
  CHECK(threads.size() == 3);
  CHECK_FALSE(threads.contains(std::this_thread::get_id()));
  CHECK(names == std::set<std::string>{"worker-0", "worker-1", "worker-2"});
}

TEST_CASE("workers of one process are placed on one node, and share its cores equally") {
  auto const cores = usable_core_count();
  ThreadLauncher launcher{{.num_workers = 2}, raytrain::local_collectives};
  Inbox inbox;
  std::mutex mutex;
  std::vector<Placement> placements;
  launcher.launch({[&](Worker const& worker) {
                     std::lock_guard const lock{mutex};
                     placements.push_back(worker.link.placement());
                   },
                   inbox.queue});
  launcher.join();
  REQUIRE(placements.size() == 2);
  std::uint32_t ranks = 0;
  for (auto const& placement : placements) {
    ranks += placement.world_rank.value;
    CHECK(placement.world_size == WorldSize{2});
    CHECK(placement.local_rank == placement.world_rank);
    CHECK(placement.local_world_size == WorldSize{2});
    CHECK(placement.node_rank == Rank{0});
    CHECK(placement.cpus == std::max<int>(1, static_cast<int>(cores) / 2));
  }
  CHECK(ranks == 1);
}

TEST_CASE("a pinned worker runs on as many cores as it may use, and an unpinned one on all") {
  auto const cores = usable_cores();
  for (auto const pin : {false, true}) {
    CAPTURE(pin);
    ThreadLauncher launcher{{.num_workers = 1, .resources_per_worker = {.cpus = 1}, .pin_cpus = pin},
                            raytrain::local_collectives};
    Inbox inbox;
    std::vector<int> allowed;
    launcher.launch({[&](Worker const&) { allowed = usable_cores(); }, inbox.queue});
    launcher.join();
    CHECK(allowed == (pin ? std::vector{cores.front()} : cores));
  }
}

TEST_CASE("a worker's messages arrive in the order in which it sent them") {
  ThreadLauncher launcher{{.num_workers = 4}, raytrain::local_collectives};
  Inbox inbox;
  launcher.launch({[](Worker const& worker) {
                     auto& link = worker.link;
                     for (std::uint64_t i = 0; i < 500; ++i)
                       link.send(Progress{link.placement().world_rank, i, 500, ""});
                   },
                   inbox.queue});
  launcher.join();
  REQUIRE(inbox.messages.size() == 2000);
  std::vector<std::uint64_t> next(4);
  for (auto const& message : inbox.messages) {
    auto const& progress = std::get<Progress>(message);
    CHECK(progress.done == next.at(progress.rank.value)++);
  }
}

TEST_CASE("a warning is of the worker that sends it, whether it names a rank or not") {
  Inbox inbox;
  WorkerLink link{{.world_rank = Rank{2}, .world_size = WorldSize{3}}, inbox.queue, Attempt{4}};
  link.send(Warning{"of itself"});
  link.send(Warning{Rank{2}, "by its rank"});
  REQUIRE(inbox.messages.size() == 2);
  for (auto const& message : inbox.messages) {
    CHECK(sender_of(message) == Rank{2});
    CHECK(attempt_of(message) == Attempt{4});
  }
}

TEST_CASE("a stop reaches every worker, and only an abort ends a wait for a commit") {
  ThreadLauncher launcher{{.num_workers = 2}, raytrain::local_collectives};
  Inbox inbox;
  std::latch waiting{2};
  std::atomic<int> committed = 0;
  std::atomic<int> stopped = 0;
  launcher.launch({[&](Worker const& worker) {
                     auto& link = worker.link;
                     link.wait_committed(CheckpointOrdinal{0});
                     ++committed;
                     waiting.count_down();
                     try {
                       link.wait_committed(CheckpointOrdinal{1});
                     } catch (Stopped const&) {
                       CHECK(link.stop_token().stop_requested());
                       CHECK(link.aborted().stop_requested());
                       ++stopped;
                     }
                   },
                   inbox.queue});
  launcher.tell(CheckpointSettled{CheckpointOrdinal{0}, {}});
  waiting.wait();
  launcher.tell(Stop{false});
  CHECK(stopped == 0);
  launcher.tell(Stop{true});
  launcher.tell(Stop{true});
  launcher.join();
  CHECK(committed == 2);
  CHECK(stopped == 2);
}

TEST_CASE("a launcher launches again once it has joined") {
  ThreadLauncher launcher{{.num_workers = 2}, raytrain::local_collectives};
  Inbox inbox;
  std::atomic<int> runs = 0;
  for (auto i = 0; i < 3; ++i) {
    launcher.launch({[&](Worker const&) { ++runs; }, inbox.queue});
    launcher.join();
  }
  CHECK(runs == 6);
}

TEST_CASE("this process's host has a name, a process id and an address") {
  auto const host = this_host();
  CHECK_FALSE(host.hostname.empty());
  CHECK(host.pid == getpid());
  CHECK(host.node_ip.find('.') != std::string::npos);
}

TEST_CASE("a launch that runs out of memory half way starts no worker and does not hang") {
  std::atomic<int> ran{0};
  for (int allowed = 0; allowed < 12; ++allowed) {
    // Every thread has a copy of the function.
    struct Main {
      std::atomic<int>& ran;
      std::shared_ptr<int> left;
      Main(std::atomic<int>& ran_, std::shared_ptr<int> left_) : ran{ran_}, left{std::move(left_)} {}
      Main(Main const& other) : ran{other.ran}, left{other.left} {
        if ((*left)-- == 0) throw std::bad_alloc{};
      }
      void operator()(Worker const&) const { ++ran; }
    };
    Inbox inbox;
    ThreadLauncher launcher{{.num_workers = 4}, raytrain::local_collectives};
    auto const left = std::make_shared<int>(1000);
    WorkerMain const main{Main{ran, left}};
    *left = allowed;
    auto const before = ran.load();
    auto failed = false;
    try {
      launcher.launch({main, inbox.queue});
    } catch (std::bad_alloc const&) {
      failed = true;
    }
    launcher.join();
    CHECK(ran - before == (failed ? 0 : 4));
  }
}
