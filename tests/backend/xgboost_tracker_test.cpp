// SPDX-License-Identifier: Apache-2.0
#include <raytrain/backend/xgboost/xgboost_communicator.hpp>
#include <raytrain/backend/xgboost/xgboost_tracker.hpp>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/message/object_bytes.hpp>

#include "../support/thrown_error.hpp"
#include "tracker_ends.hpp"
#include "xgboost_workers.hpp"

using namespace raytrain;
using namespace raytrain::testing;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

namespace {

auto no_errors(std::uint32_t world) -> std::vector<std::string> { return std::vector<std::string>(world); }

}  // namespace

TEST_CASE("workers of any number sum over all of them, have raytrain's ranks, and leave no socket behind") {
  auto const before = open_descriptors();
  for (std::uint32_t const world : {1U, 2U, 3U, 8U}) {
    CAPTURE(world);
    XGBoostTracker const tracker{{.world = WorldSize{world}}};
    auto const errors = on_threads(world, [&](Rank rank) {
      XGBoostCommunicator communicator{tracker.worker_arguments(), rank};
      CHECK(XGCommunicatorGetRank() == static_cast<int>(rank.value));
      CHECK(XGCommunicatorGetWorldSize() == static_cast<int>(world));
      for (int round = 0; round < 3; ++round) CHECK(summed(1.0 + rank.value) == world * (world + 1.0) / 2);
      communicator.finalize();
      CHECK(XGCommunicatorIsDistributed() == 0);
    });
    CHECK(errors == no_errors(world));
    CHECK_FALSE(tracker.error());
  }
  CHECK(descriptors_return_to(before));
}

TEST_CASE("a worker that writes to a connection that is gone gets an error, and is not ended by a signal") {
  std::array<int, 2> pipe{};
  REQUIRE(::pipe2(pipe.data(), O_CLOEXEC) == 0);
  ::close(pipe[0]);
  XGBoostTracker const tracker{{.world = WorldSize{1}}};
  auto const errors = on_threads(1, [&](Rank rank) {
    sigset_t before;
    pthread_sigmask(SIG_SETMASK, nullptr, &before);
    {
      XGBoostCommunicator communicator{tracker.worker_arguments(), rank};
      CHECK(::write(pipe[1], "x", 1) == -1);
      CHECK(errno == EPIPE);
      communicator.finalize();
    }
    sigset_t after;
    pthread_sigmask(SIG_SETMASK, nullptr, &after);
    CHECK(sigismember(&after, SIGPIPE) == sigismember(&before, SIGPIPE));
  });
  CHECK(errors == no_errors(1));
  ::close(pipe[1]);
}

TEST_CASE("models that three workers train together have the same bytes, and are not what one of them trains alone") {
  constexpr std::uint32_t world = 3;
  XGBoostTracker const tracker{{.world = WorldSize{world}}};
  std::vector<std::string> models(world);
  auto const errors = on_threads(world, [&](Rank rank) {
    XGBoostCommunicator communicator{tracker.worker_arguments(), rank};
    models[rank.value] = train_model(rank, 5);
    communicator.finalize();
  });
  REQUIRE(errors == no_errors(world));
  CHECK(models[0].size() > 1000);
  CHECK(models[1] == models[0]);
  CHECK(models[2] == models[0]);
  CHECK(train_model(Rank{0}, 5) != models[0]);
}

TEST_CASE("threads that were workers of one run are those of the next one too") {
  constexpr std::uint32_t world = 3;
  auto const before = open_descriptors();
  {
    XGBoostTracker const first{{.world = WorldSize{world}}};
    XGBoostTracker const second{{.world = WorldSize{world}}};
    auto const errors = on_threads(world, [&](Rank rank) {
      for (auto const* const tracker : {&first, &second}) {
        XGBoostCommunicator communicator{tracker->worker_arguments(), rank};
        CHECK(summed(1) == 3);
        communicator.finalize();
      }
    });
    CHECK(errors == no_errors(world));
  }
  CHECK(descriptors_return_to(before));
}

TEST_CASE("what workers need to find each other goes through messages") {
  XGBoostTracker const tracker{{.world = WorldSize{2}}};
  auto const& arguments = tracker.worker_arguments();
  auto const copy = from_bytes<XGBoostWorkerArguments>(to_bytes(arguments));
  CHECK(copy.host == "127.0.0.1");
  CHECK(copy.port == arguments.port);
  CHECK(copy.world == 2);
  CHECK(copy.task_id(Rank{1}) == arguments.task_id(Rank{1}));
  CHECK(copy.rank_of(copy.task_id(Rank{1})) == Rank{1});
  CHECK(copy.task_id(Rank{9}) < copy.task_id(Rank{10}));
  for (auto const& stranger : {copy.task_id(Rank{2}), std::string{"1"}, copy.secret + "-00000x", copy.secret}) {
    CHECK_FALSE(copy.rank_of(stranger));
  }
}

TEST_CASE("a tracker whose options cannot work is refused, with the field") {
  auto const refused = [](XGBoostTracker::Options const& options) {
    return thrown_error([&] { XGBoostTracker{options}; });
  };
  CHECK(refused({.world = WorldSize{0}}) ==
        "invalid_config: XGBoostTracker::Options::world: must be 1 to 1000000 (got 0)");
  CHECK(refused({.start_limit = milliseconds{0}}) ==
        "invalid_config: XGBoostTracker::Options::start_limit: must be positive (got 0 ms)");
  CHECK(refused({.max_strangers = 0}) ==
        "invalid_config: XGBoostTracker::Options::max_strangers: must be at least 1 (got 0)");
  check_contains(refused({.address = "nowhere"}), "\"nowhere\" is not an IPv4 address");
  check_contains(refused({.address = "192.0.2.1"}), "Cannot assign requested address");
}

TEST_CASE("when a worker never comes the tracker says which, and the others end with an error") {
  auto const before = open_descriptors();
  {
    TrackerLog log;
    XGBoostTracker const tracker{{.world = WorldSize{3}, .start_limit = seconds{1}}, log.events()};
    auto const errors = on_threads(2, [&](Rank rank) {
      XGBoostCommunicator const communicator{tracker.worker_arguments(), rank};
    });
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      check_contains(errors[rank], "XGCommunicatorInit on rank " + std::to_string(rank) + ": ");
    }
    log.wait([&] { return !log.errors.empty(); });
    REQUIRE(tracker.error());
    CHECK(tracker.error()->code() == Errc::timed_out);
    CHECK(log.errors.size() == 1);
    check_contains(log.errors[0], "bringing XGBoost's workers together: 2 of 3 came within 1000 ms; missing: rank 2; ");
  }
  CHECK(descriptors_return_to(before));
}

TEST_CASE("a tracker ends at once although workers wait in it, and those get an error") {
  auto const before = open_descriptors();
  {
    std::optional<XGBoostTracker> tracker;
    tracker.emplace(XGBoostTracker::Options{.world = WorldSize{3}});
    auto const arguments = tracker->worker_arguments();
    auto const errors = on_threads(3, [&](Rank rank) {
      if (rank == Rank{2}) {
        auto const begin = steady_clock::now();
        tracker.reset();
        CHECK(steady_clock::now() - begin < seconds{1});
        return;
      }
      XGBoostCommunicator const communicator{arguments, rank};
    });
    CHECK(errors[0] != "");
    CHECK(errors[1] != "");
  }
  // A worker that has not said where to reach it leaves a socket of XGBoost's behind, from 2.1 on.
  if (!library_tracks) CHECK(descriptors_return_to(before));
}

TEST_CASE("when a worker ends between rounds the others get an error within a second, and nothing is left of them") {
  auto const before = open_descriptors();
  {
    XGBoostTracker const tracker{{.world = WorldSize{3}}};
    auto const errors = on_threads(3, [&](Rank rank) {
      XGBoostCommunicator const communicator{tracker.worker_arguments(), rank};
      CHECK(summed(1) == 3);
      if (rank == Rank{1}) throw Error{Errc::worker_failed, "the training function", "has had enough"};
      auto const begin = steady_clock::now();
      try {
        (void)summed(1);
      } catch (...) {
        CHECK(steady_clock::now() - begin < seconds{1});
        throw;
      }
    });
    CHECK(errors[1] == "the training function: has had enough");
    for (auto const rank : {0U, 2U}) check_contains(errors[rank], "XGCommunicatorAllreduce: ");
  }
  CHECK(descriptors_return_to(before));
}

TEST_CASE("when a worker is killed between rounds the others get an error within a second") {
  // The process is made before there are threads in this one.
  int arguments_pipe[2];
  REQUIRE(::pipe(arguments_pipe) == 0);
  auto const child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    Bytes bytes(256);
    auto const count = ::read(arguments_pipe[0], bytes.data(), bytes.size());
    if (count <= 0) ::_exit(1);
    bytes.resize(static_cast<std::size_t>(count));
    XGBRegisterLogCallback([](char const*) {});
    XGBoostCommunicator const communicator{from_bytes<XGBoostWorkerArguments>(bytes), Rank{1}};
    if (summed(1) != 3) ::_exit(2);
    ::raise(SIGKILL);
  }
  auto const before = open_descriptors();
  {
    XGBoostTracker const tracker{{.world = WorldSize{3}}};
    auto const bytes = to_bytes(tracker.worker_arguments());
    REQUIRE(::write(arguments_pipe[1], bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    auto const errors = on_threads(3, [&](Rank rank) {
      if (rank == Rank{1}) {
        int status = 0;
        CHECK(::waitpid(child, &status, 0) == child);
        CHECK(WIFSIGNALED(status));
        return;
      }
      XGBoostCommunicator const communicator{tracker.worker_arguments(), rank};
      CHECK(summed(1) == 3);
      auto const begin = steady_clock::now();
      try {
        (void)summed(1);
      } catch (...) {
        CHECK(steady_clock::now() - begin < seconds{1});
        throw;
      }
    });
    for (auto const rank : {0U, 2U}) check_contains(errors[rank], "XGCommunicatorAllreduce: ");
  }
  CHECK(descriptors_return_to(before));
  ::close(arguments_pipe[0]);
  ::close(arguments_pipe[1]);
}

TEST_CASE("workers that outlive the tracker train on, and leave without waiting for it") {
  auto const before = open_descriptors();
  std::optional<XGBoostTracker> tracker;
  tracker.emplace(XGBoostTracker::Options{.world = WorldSize{2}});
  auto const arguments = tracker->worker_arguments();
  on_threads(2, [&](Rank rank) {
    XGBoostCommunicator communicator{arguments, rank};
    CHECK(summed(1) == 2);
    if (rank == Rank{0}) tracker.reset();
    CHECK(summed(1) == 2);
    auto const begin = steady_clock::now();
    try {
      communicator.finalize();
    } catch (Error const& error) {
      MESSAGE(std::string{error.what()});
    }
    CHECK(steady_clock::now() - begin < seconds{1});
  });
  CHECK(descriptors_return_to(before));
}
