// SPDX-License-Identifier: Apache-2.0
// What ends the wait for other ranks, and what all ranks come to know together.
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/collective/mpi.hpp>
#include <raytrain/collective/wrapped_collective.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/testing/collective_conformance.hpp>
#include <raytrain/testing/collective_refusals.hpp>

#include "mpi_world.hpp"

using raytrain::MpiCollective;
using raytrain::MpiGroup;
using raytrain::MpiOptions;
using raytrain::Rank;
using raytrain::ReduceOp;
using raytrain::TaggedCollective;
using raytrain::WorldSize;
using raytrain::testing::refusal;
using namespace std::chrono_literals;

namespace {

auto me() -> std::uint32_t { return FirstRanks::job().rank.value; }
auto ranks() -> std::uint32_t { return FirstRanks::job().size.value; }

void meet() { MPI_Barrier(MPI_COMM_WORLD); }

/// "rank 1", "ranks 1 and 2", "ranks 1, 2 and 3": all but rank 0.
auto others() -> std::string {
  auto text = std::string{ranks() == 2 ? "rank 1" : "ranks 1"};
  for (std::uint32_t rank = 2; rank < ranks(); ++rank)
    text += (rank + 1 == ranks() ? " and " : ", ") + std::to_string(rank);
  return text;
}

auto calls_checked(raytrain::WaitLimits limits) -> MpiOptions {
  return {.share_memory = false, .check_calls = true, .limits = std::move(limits)};
}

/// What this MPI says of an error.
auto text_of(int code) -> std::string {
  std::string text(MPI_MAX_ERROR_STRING, ' ');
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return text.substr(0, static_cast<std::size_t>(length));
}

/// An operation on memory that stays, since MPI may use it after an abort.
void reduce_some(MpiCollective& collective, std::size_t size) {
  static auto& memory = *new std::vector<float>(100'000, 1.0F);
  collective.all_reduce(std::span<float>{memory}.first(size), ReduceOp::sum);
}

}  // namespace

TEST_CASE("a group names the ranks that do not come to make it, and warns of them before") {
  if (ranks() < 2) return;
  MPI_Comm apart = MPI_COMM_NULL;  // kept: messages stay pending in it
  MPI_Comm_dup(MPI_COMM_WORLD, &apart);
  std::string warning;
  raytrain::WaitLimits const limits{
      .timeout = 30ms, .warn_after = 10ms, .on_warning = [&](std::string const& text) { warning = text; }};
  auto const have = others() + (ranks() == 2 ? " has" : " have");
  if (me() == 0) {
    CHECK(refusal([&] {
            MpiGroup{apart, {.limits = limits}};
          }) == "timed_out: bringing all ranks together on rank 0: " + have +
                    " not come within 30 ms; look at what is done there instead, or allow more time: "
                    "RunConfig::collective_timeout, WaitLimits::timeout");
    CHECK(warning == "rank 0 has waited 10 ms for all ranks to come together: " + have + " not come");
    CHECK(refusal([&] {
            MpiGroup{apart, {.limits = limits}};
          }) ==
          "invalid_call: bringing all ranks together on rank 0: they have not come before, and messages of that "
          "time are under way still; give each group a communicator of its own, by MPI_Comm_dup");
  }
  meet();
  MPI_Comm_dup(MPI_COMM_WORLD, &apart);
  if (me() == 1) {
    CHECK(
        refusal([&] {
          MpiGroup{apart, {.limits = limits}};
        })
            .starts_with("timed_out: bringing all ranks together on rank 1: rank 0 has not come within 30 ms, or waits "
                         "for others; "));
  }
  meet();
}

TEST_CASE("an abort ends a wait for ranks that do not come, and every later call") {
  if (ranks() < 2) return;
  for (bool const checked : {false, true}) {
    CAPTURE(checked);
    for (std::size_t const size : {0U, 2U, 50'000U}) {
      CAPTURE(size);
      std::shared_ptr<MpiGroup> group;
      MpiOptions options{.share_memory = false,
                         .check_calls = checked,
                         .limits = {.timeout = 30s, .warn_after = 1ms, .on_warning = [&](auto const&) {
                                      if (group) std::jthread{[&] { group->abort(); }};
                                    }}};
      group = std::make_shared<MpiGroup>(MPI_COMM_WORLD, options);
      MpiCollective collective{group};
      if (me() == 0) {
        CHECK_FALSE(collective.stop_agreed());
        CHECK_THROWS_AS(size == 0 ? collective.barrier() : reduce_some(collective, size), raytrain::Stopped);
        CHECK_THROWS_AS(collective.barrier(), raytrain::Stopped);
        CHECK(collective.stop_agreed());
      }
      meet();
    }
  }
}

TEST_CASE("after an abort a call throws before it begins anything") {
  auto const group = std::make_shared<MpiGroup>(MPI_COMM_WORLD, patient_options());
  MpiCollective collective{group};
  collective.barrier();
  group->abort();
  CHECK_THROWS_AS(collective.barrier(), raytrain::Stopped);
  CHECK_THROWS_AS(reduce_some(collective, 3), raytrain::Stopped);
  meet();
}

TEST_CASE("a rank that waits too long is told who is missing when calls are checked, and works no more") {
  if (ranks() < 2) return;
  MpiCollective collective{
      std::make_shared<MpiGroup>(MPI_COMM_WORLD, calls_checked({.timeout = 1s, .warn_after = {}}))};
  std::string const has = ranks() == 2 ? " has" : " have";
  if (me() == 0) {
    CHECK(refusal([&] { reduce_some(collective, 5); }) ==
          "timed_out: all_reduce(5 x float32, sum) on rank 0: " + others() + has +
              " not come within 1 s; look at what is done there instead, or allow more time: "
              "RunConfig::collective_timeout, WaitLimits::timeout");
    CHECK(refusal([&] { collective.barrier(); }) ==
          "timed_out: barrier() on rank 0: the group is unusable since " + others() + has +
              " not come within 1 s; let the error end the training function");
  }
  meet();
}

TEST_CASE("a rank that waits too long is told who is missing when calls are not checked, too") {
  if (ranks() < 2) return;
  MpiCollective collective{std::make_shared<MpiGroup>(
      MPI_COMM_WORLD, MpiOptions{.share_memory = false, .limits = {.timeout = 1s, .warn_after = {}}})};
  if (me() == ranks() - 1) {
    auto const rank = std::to_string(me());
    auto const missing = ranks() == 2 ? "rank 0 has" : ranks() == 3 ? "ranks 0 and 1 have" : "ranks 0, 1 and 2 have";
    CHECK(refusal([&] { reduce_some(collective, 5); }) ==
          "timed_out: all_reduce(5 x float32, sum) on rank " + rank + ": " + missing +
              " not come within 1 s; look at what is done there instead, or allow more time: "
              "RunConfig::collective_timeout, WaitLimits::timeout");
    CHECK(refusal([&] { collective.barrier(); }) ==
          "timed_out: barrier() on rank " + rank + ": the group is unusable since " + missing +
              " not come within 1 s; let the error end the training function");
  }
  meet();
}

TEST_CASE("a time limit of nothing is refused") {
  CHECK(refusal([] { MpiGroup(MPI_COMM_WORLD, {.limits = {.timeout = 0ms}}); }) ==
        "invalid_call: MpiGroup: the timeout must be above 0 (got 0 ms)");
}

TEST_CASE("whoever waits long is warned once an operation, and goes on") {
  if (ranks() < 2) return;
  for (bool const checked : {false, true}) {
    CAPTURE(checked);
    std::vector<std::string> warnings;
    std::shared_ptr<MpiGroup> group;
    MpiOptions options{.share_memory = false, .check_calls = checked, .limits = {.timeout = 30s, .warn_after = 2ms}};
    options.limits.on_warning = [&](std::string const& text) {
      if (!group) return;  // slow ranks are waited for when it is made
      warnings.push_back(text);
      if (me() != 0) return;
      for (int other = 1; other < static_cast<int>(ranks()); ++other)
        MPI_Send(nullptr, 0, MPI_INT, other, 0, MPI_COMM_WORLD);
    };
    group = std::make_shared<MpiGroup>(MPI_COMM_WORLD, options);
    MpiCollective collective{group};
    // The others come when rank 0 has complained.
    for (int i = 0; i < 2; ++i) {
      if (me() != 0) MPI_Recv(nullptr, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      reduce_some(collective, 7);
    }
    auto const text =
        "rank 0 has waited 2 ms in all_reduce(7 x float32, sum) for " + (checked ? others() : "the others");
    if (me() == 0) CHECK(warnings == std::vector<std::string>{text, text});
  }
}

TEST_CASE("when calls are checked, nobody is warned beside the lowest rank that waits") {
  if (ranks() < 3) return;
  std::vector<std::string> warnings;
  std::shared_ptr<MpiGroup> group;
  MpiOptions options = calls_checked({.timeout = 1s, .warn_after = 1ms});
  options.limits.on_warning = [&](std::string const& text) {
    if (!group) return;  // slow ranks are waited for when it is made
    warnings.push_back(text);
    if (me() == 0) MPI_Send(nullptr, 0, MPI_INT, 1, 0, MPI_COMM_WORLD);
  };
  group = std::make_shared<MpiGroup>(MPI_COMM_WORLD, options);
  MpiCollective collective{group};
  if (me() == 1) MPI_Recv(nullptr, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (me() < 2) {
    CHECK(refusal([&] { collective.barrier(); }).substr(0, 30) ==
          "timed_out: barrier() on rank " + std::to_string(me()));
    CHECK(warnings.size() == 1 - me());
  }
  meet();
}

TEST_CASE("a rank that has ended ends the wait for it, but not in an operation that it has called") {
  if (ranks() < 2) return;
  bool told = false;
  auto const tell_others = [&] {
    if (me() != 0 || std::exchange(told, true)) return;
    for (int other = 1; other < static_cast<int>(ranks()); ++other)
      MPI_Send(nullptr, 0, MPI_INT, other, 0, MPI_COMM_WORLD);
  };
  auto options = patient_options();
  options.limits.warn_after = 1500ms;
  options.limits.on_warning = [&](auto const&) { tell_others(); };
  auto const group = std::make_shared<MpiGroup>(MPI_COMM_WORLD, options);
  MpiCollective collective{group};
  // Others of that operation may take their time: they come when rank 0 has waited long.
  if (me() == 0) {
    group->leave(Rank{1}, 1);
  } else {
    MPI_Recv(nullptr, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  CHECK(refusal([&] { reduce_some(collective, 10); }) == "nothing");
  tell_others();

  auto const text = [](std::string const& call) {
    return "rank_mismatch: collective call: rank 1 has ended while rank 0 waits in " + call +
           "; make every rank call the same operations, as often";
  };
  if (me() == 0) {
    CHECK(refusal([&] { reduce_some(collective, 10); }) == text("all_reduce(10 x float32, sum)"));
    CHECK(refusal([&] { collective.barrier(); }) == text("barrier()"));
  }
  meet();
}

TEST_CASE("after a request to stop a rank that has ended stops those that wait for it, but not in what it has called") {
  if (ranks() < 2) return;
  for (bool const told_before : {false, true}) {
    for (bool const in_duplicate : {false, true}) {
      CAPTURE(told_before);
      CAPTURE(in_duplicate);
      std::shared_ptr<MpiGroup> group;
      std::uint64_t called = 0;
      auto const tell = [&] { group->leave(Rank{1}, called); };
      bool waits_in_vain = false;
      auto options = patient_options();
      options.limits.warn_after = 1ms;
      options.limits.on_warning = [&](auto const&) {
        if (waits_in_vain) std::jthread{tell};
      };
      group = std::make_shared<MpiGroup>(MPI_COMM_WORLD, options);
      MpiCollective collective{group};
      auto const duplicate = collective.duplicate();
      group->request_stop();
      called = group->calls_made().operations + 1;
      if (told_before && !in_duplicate && me() == 0) tell();
      CHECK(refusal([&] { reduce_some(collective, 10); }) == "nothing");
      if (me() == 0) {
        if (told_before && in_duplicate) tell();
        waits_in_vain = !told_before;
        CHECK_THROWS_AS(in_duplicate ? duplicate->barrier() : collective.barrier(), raytrain::Stopped);
        CHECK(group->has_pending() == (!told_before && !in_duplicate));
      }
      meet();
    }
  }
}

TEST_CASE("of several ranks that have ended, the one that has called least ends the wait") {
  if (ranks() < 3) return;
  auto const group = std::make_shared<MpiGroup>(MPI_COMM_WORLD, patient_options());
  MpiCollective collective{group};
  reduce_some(collective, 10);
  CHECK(group->calls_made().operations == 1);
  group->leave(Rank{0}, 5);
  group->leave(Rank{1}, 1);
  group->leave(Rank{2}, 3);
  if (me() != 1) {
    CHECK(refusal([&] { collective.barrier(); }) ==
          "rank_mismatch: collective call: rank 1 has ended while rank " + std::to_string(me()) +
              " waits in barrier(); make every rank call the same operations, as often");
  }
  meet();
}

namespace {

/// What the last rank calls instead of what the others do, and what all are told.
struct Differing {
  std::function<void(MpiCollective&)> usual;
  std::function<void(MpiCollective&)> odd;
  std::string said;
};

auto differing_calls() -> std::vector<Differing> {
  auto const last = std::to_string(ranks() - 1);
  return {
      {raytrain::testing::all_reduce(1, ReduceOp::sum), raytrain::testing::all_reduce<std::int32_t>(1, ReduceOp::sum),
       "calls all_reduce(1 x float32, sum), but rank " + last + " calls all_reduce(1 x int32, sum)"},
      {raytrain::testing::broadcast(3, Rank{0}), raytrain::testing::broadcast(3, Rank{1}),
       "calls broadcast(3 x float32, root 0), but rank " + last + " calls broadcast(3 x float32, root 1)"},
      {raytrain::testing::all_reduce(100, ReduceOp::sum), raytrain::testing::all_reduce(100, ReduceOp::max),
       "calls all_reduce(100 x float32, sum), but rank " + last + " calls all_reduce(100 x float32, max)"}};
}

}  // namespace

TEST_CASE_TEMPLATE("ranks of several hosts that call something else are told both calls within 32 operations", Setup,
                   OnOneHost, OnManyHosts, RankOrderOnManyHosts) {
  if (ranks() < 2) return;
  for (auto const& [usual, odd, said] : differing_calls()) {
    // As the first operation, which is compared, and as one of many.
    for (int const before : {0, 40}) {
      CAPTURE(before);
      MpiCollective collective{std::make_shared<MpiGroup>(MPI_COMM_WORLD, Setup::options(), Setup::pretence())};
      for (int i = 0; i < before; ++i) usual(collective);
      auto const told = refusal([&] {
        (me() == ranks() - 1 ? odd : usual)(collective);
        for (int i = 0; i < 32; ++i) usual(collective);
      });
      // Where a wait takes longer than a second, ranks speak of themselves instead of rank 0.
      CHECK(told.starts_with("rank_mismatch: collective call: rank "));
      CHECK(told.find(said + "; make every rank call the same operations in the same order") != std::string::npos);
      auto const again = refusal([&] { collective.barrier(); });
      CHECK(again.starts_with("rank_mismatch: barrier() on rank " + std::to_string(me()) +
                              ": the group is unusable since rank "));
      CHECK(again.ends_with(said + "; let the error end the training function"));
      meet();
    }
  }
}

TEST_CASE_TEMPLATE("ranks of several hosts whose backwards belong to other models are told both within 32 operations",
                   Setup, OnHostsOfTwo, OnManyHosts) {
  if (ranks() < 2) return;
  bool const is_of_first_hosts = me() < ranks() / 2;
  for (std::uint32_t const alike : {0, 40}) {
    CAPTURE(alike);
    MpiCollective collective{std::make_shared<MpiGroup>(MPI_COMM_WORLD, Setup::options(), Setup::pretence())};
    TaggedCollective averaging{collective};
    std::vector<float> gradients(10);
    auto const backward_of = [&](std::uint16_t model, std::uint32_t backward) {
      averaging.tag() = {.of = raytrain::detail::CallOf::backward, .model = model, .number = backward};
      averaging.all_reduce(std::span{gradients}, ReduceOp::average);
    };
    for (std::uint32_t backward = 1; backward <= alike; ++backward) backward_of(1, backward);
    auto const told = refusal([&] {
      for (auto backward = alike + 1; backward <= alike + 33; ++backward) {
        backward_of(is_of_first_hosts ? 1 : 2, backward);
        backward_of(is_of_first_hosts ? 2 : 1, backward);
      }
    });
    auto const call = [&](std::string const& model) {
      return " calls all_reduce(10 x float32, average) for backward " + std::to_string(alike + 1) + " of model " +
             model + " (after 0 samples of epoch 0)";
    };
    CAPTURE(told);
    CHECK(told.starts_with("rank_mismatch: collective call: rank "));
    CHECK(told.find(call("1") + ", but rank ") != std::string::npos);
    CHECK(told.ends_with(call("2") + "; make every rank run the same backwards in the same order, on as many batches "
                                     "of one size, and average after as many"));
    meet();
  }
}

TEST_CASE("a rank of another host that calls something small in place of a backward is refused before an array moves") {
  if (ranks() < 2) return;
  auto const is_odd = me() == ranks() - 1;
  MpiCollective collective{std::make_shared<MpiGroup>(MPI_COMM_WORLD, OnManyHosts::options(), OnManyHosts::pretence())};
  TaggedCollective averaging{collective};
  // MPI may use it still when a call has failed.
  static auto& values = *new std::vector<float>(100);
  for (std::uint32_t backward = 1; backward <= 40; ++backward) {
    averaging.tag() = {.of = raytrain::detail::CallOf::backward, .model = 1, .number = backward};
    for (int bucket = 0; bucket < 7; ++bucket) averaging.all_reduce(std::span{values}, ReduceOp::average);
  }
  std::ranges::fill(values, static_cast<float>(me()));
  averaging.tag().number = 41;
  auto const told = refusal([&] {
    if (is_odd) return collective.all_reduce(std::span{values}.first(1), ReduceOp::sum);
    averaging.all_reduce(std::span{values}, ReduceOp::average);
  });
  CHECK(
      told.starts_with("rank_mismatch: collective call: rank 0 calls all_reduce(100 x float32, average) for backward"));
  CHECK(values.front() == static_cast<float>(me()));
  meet();
}

TEST_CASE("ranks that wait for each other in different operations are told so after a second") {
  if (ranks() < 2) return;
  auto options = patient_options();
  options.limits.timeout = 25s;
  MpiCollective collective{std::make_shared<MpiGroup>(MPI_COMM_WORLD, options)};
  for (int i = 0; i < 3; ++i) reduce_some(collective, 10);
  // An agreement and an array, which never meet.
  auto const said = refusal([&] {
    if (me() == 0) return collective.barrier();
    for (int i = 0; i < 33; ++i) reduce_some(collective, 10);
  });
  CHECK(said.starts_with("rank_mismatch: collective call: rank 0 calls barrier(), but rank "));
  CHECK(said.find(" calls all_reduce(10 x float32, sum); make every rank") != std::string::npos);
  meet();
}

TEST_CASE(
    "what ranks tell that have waited for a late one is gone from MPI once all have agreed, on the late one too") {
  if (ranks() < 2) return;
  raytrain::detail::MpiEndpoint endpoint{{.original = MPI_COMM_WORLD, .options = patient_options()}};
  auto const has_told = [&](int rank) {
    int is_there = 0;
    MPI_Iprobe(rank, MPI_ANY_TAG, endpoint.handle(), &is_there, MPI_STATUS_IGNORE);
    return is_there != 0;
  };
  for (int operation = 0; operation < 2; ++operation) {
    for (std::uint32_t other = 1; me() == 0 && other < ranks(); ++other) {
      while (!has_told(static_cast<int>(other))) std::this_thread::yield();
    }
    endpoint.operate({.operation = raytrain::detail::Operation::barrier}, {}, [] {});
    if (me() == 0) CHECK_FALSE(has_told(MPI_ANY_SOURCE));
  }
  meet();
}

TEST_CASE_TEMPLATE("ranks of several hosts whose large arrays differ are told so after a second", Setup, OnOneHost,
                   OnManyHosts) {
  if (ranks() < 2) return;
  // MPI may use it still when the calls have failed.
  static auto& mine = *new std::vector<float>(30'000 * std::size_t{ranks()}, 1.0F);
  static auto& all = *new std::vector<float>(mine.size() * ranks());
  bool const is_odd = me() == ranks() - 1;
  using Work = std::function<void(MpiCollective&)>;
  auto const reduce = [](std::size_t size) -> Work {
    return [=](MpiCollective& collective) { collective.all_reduce(std::span{mine}.first(size), ReduceOp::sum); };
  };
  auto const gather = [](std::size_t size) -> Work {
    return [=](MpiCollective& collective) {
      collective.all_gather(std::span<float const>{mine}.first(size), std::span{all}.first(size * ranks()));
    };
  };
  // None as large as those before which calls are compared.
  auto const size = mine.size();
  for (auto const& [usual, odd] : {std::pair{reduce(size), reduce(size - 10)}, std::pair{gather(200), gather(100)},
                                   std::pair{reduce(size), gather(200)}}) {
    MpiCollective collective{std::make_shared<MpiGroup>(MPI_COMM_WORLD, Setup::options(), Setup::pretence())};
    for (int i = 0; i < 3; ++i) reduce_some(collective, 10);
    auto const told = refusal([&] {
      (is_odd ? odd : usual)(collective);
      collective.barrier();
    });
    CAPTURE(told);
    CHECK(told.starts_with("rank_mismatch: collective call: rank "));
    CHECK(told.find(", but rank " + std::to_string(ranks() - 1) + " calls all_") != std::string::npos);
    meet();
  }
}

TEST_CASE("a rank that has ended ends the wait of those that share memory with it, also where there are other hosts") {
  if (ranks() < 4) return;
  auto options = OnHostsOfTwo::options();
  options.limits.timeout = 5s;
  auto const group = std::make_shared<MpiGroup>(MPI_COMM_WORLD, options, OnHostsOfTwo::pretence());
  MpiCollective collective{group};
  if (me() == 2) {
    group->leave(Rank{3});
    CHECK(refusal([&] { reduce_some(collective, 10); }).find("rank_mismatch: collective call: rank") == 0);
  }
  meet();
}

TEST_CASE("ranks with other options are refused on every rank") {
  if (ranks() < 2) return;
  MpiOptions options;
  options.check_calls = me() == 1;
  CHECK(refusal([&] { MpiGroup(MPI_COMM_WORLD, options); }) ==
        "rank_mismatch: MpiGroup: the ranks disagree about MpiOptions::check_calls; give it the same value on every "
        "rank");
  options = {.share_memory = me() != 1};
  CHECK(refusal([&] { MpiGroup(MPI_COMM_WORLD, options); }) ==
        "rank_mismatch: MpiGroup: the ranks disagree about MpiOptions::share_memory; give it the same value on every "
        "rank");
  options = {.reduction = me() == 1 ? raytrain::Reduction::rank_order : raytrain::Reduction::automatic};
  CHECK(refusal([&] { MpiGroup(MPI_COMM_WORLD, options); }) ==
        "rank_mismatch: MpiGroup: the ranks disagree about MpiOptions::reduction; give it the same value on every "
        "rank");
}

TEST_CASE_TEMPLATE("a stop request of one rank is agreed on in the next barrier and not before, and stays agreed",
                   Setup, InSharedMemory, OnHostsOfTwo, OnOneHost, CallsChecked) {
  auto const group = std::make_shared<MpiGroup>(MPI_COMM_WORLD, Setup::options(), Setup::pretence());
  MpiCollective collective{group};
  collective.barrier();
  if (me() == ranks() - 1) group->request_stop();
  meet();
  CHECK(collective.stop_agreed() == (ranks() == 1));
  collective.barrier();
  CHECK(collective.stop_agreed());
  reduce_some(collective, 10);
  CHECK(collective.stop_agreed());
}

TEST_CASE_TEMPLATE(
    "all ranks agree to stop after the same operation, whatever they call and whenever the request comes", Setup,
    InSharedMemory, OnHostsOfTwo, OnOneHost, CallsChecked) {
  std::mt19937_64 random{random_seed()};
  for (int run = 0; run < 20; ++run) {
    auto const size = random() % 100;
    auto const kind = random() % 3;
    auto const requests = random() % ranks();
    auto const looks = random() % 100;
    auto const group = std::make_shared<MpiGroup>(MPI_COMM_WORLD, Setup::options(), Setup::pretence());
    MpiCollective collective{group};
    std::uint64_t done = 0;
    std::uint64_t after_request = 0;
    std::vector<float> values(size + 1);
    do {
      if (me() == requests && done == looks) group->request_stop();
      if (kind == 0) reduce_some(collective, size);
      if (kind == 1) collective.broadcast(std::span<float>{values}, Rank{0});
      if (kind == 2) collective.barrier();
      ++done;
      if (done > looks) ++after_request;
    } while (!collective.stop_agreed());
    CHECK(after_request <= 33);
    std::vector<std::uint64_t> all(ranks());
    MPI_Allgather(&done, 1, MPI_UINT64_T, all.data(), 1, MPI_UINT64_T, MPI_COMM_WORLD);
    CHECK(all == std::vector<std::uint64_t>(ranks(), done));
  }
}

TEST_CASE("large arrays let the ranks agree to stop in every operation") {
  auto const group = std::make_shared<MpiGroup>(MPI_COMM_WORLD, patient_options());
  MpiCollective collective{group};
  std::vector<double> values(std::size_t{1} << 17U);
  for (int i = 0; i < 3; ++i) collective.broadcast(std::span<double>{values}, Rank{0});
  meet();
  if (me() == 0) group->request_stop();
  meet();
  collective.broadcast(std::span<double>{values}, Rank{0});
  CHECK(collective.stop_agreed());
}

TEST_CASE("a collective needs a group, and a group a communicator of one group") {
  CHECK(refusal([] { MpiCollective{nullptr}; }) == "invalid_call: MpiCollective: needs a group (got null)");
  CHECK(refusal([] { MpiGroup{MPI_COMM_NULL}; }) ==
        "invalid_call: MpiGroup: needs a communicator (got MPI_COMM_NULL); leave out ranks that are not in the "
        "communicator");
  if (ranks() < 2) return;
  MPI_Comm halves = MPI_COMM_NULL;
  MPI_Comm between = MPI_COMM_NULL;
  int const half = me() == 0 ? 0 : 1;
  MPI_Comm_split(MPI_COMM_WORLD, half, 0, &halves);
  MPI_Intercomm_create(halves, 0, MPI_COMM_WORLD, 1 - half, 0, &between);
  CHECK(refusal([&] { MpiGroup{between}; }) ==
        "invalid_call: MpiGroup: needs a communicator of one group (got one between two); merge it by "
        "MPI_Intercomm_merge");
  MPI_Comm_free(&between);
  MPI_Comm_free(&halves);
}

TEST_CASE_TEMPLATE("an abort frees the ranks that share memory with the one that is told, wherever they wait", Setup,
                   InSharedMemory, OnHostsOfTwo) {
  if (ranks() < 2) return;
  auto const group = std::make_shared<MpiGroup>(MPI_COMM_WORLD, Setup::options(), Setup::pretence());
  MpiCollective collective{group};
  collective.barrier();
  std::vector<float> values(5'000, 1.0F);
  if (me() == ranks() - 1) {
    group->abort();
    CHECK_THROWS_AS(collective.barrier(), raytrain::Stopped);
  } else {
    // On other hosts somebody else would tell them.
    if (group->transport() != "memory that all ranks share" && me() + 2 < ranks()) group->abort();
    CHECK_THROWS_AS(for (;;) collective.all_reduce(std::span<float>{values}, ReduceOp::sum), raytrain::Stopped);
  }
  CHECK(collective.stop_agreed());
  meet();
}

TEST_CASE("an abort frees a rank that waits in MPI and shares memory with the one that is told") {
  if (ranks() < 4) return;
  auto const group = std::make_shared<MpiGroup>(MPI_COMM_WORLD, OnHostsOfTwo::options(), OnHostsOfTwo::pretence());
  MpiCollective collective{group};
  collective.barrier();
  if (me() == 2) {
    // Rank 0 does not come, and nothing of a broadcast goes through memory.
    CHECK_THROWS_AS(collective.broadcast(std::span<float>{*new std::vector<float>(10)}, Rank{0}), raytrain::Stopped);
    CHECK(collective.stop_agreed());
  }
  if (me() == 3) group->abort();
  meet();
}

TEST_CASE("an operation that fails on one rank frees a rank of its host that waits in MPI") {
  if (ranks() < 4) return;
  auto const group = std::make_shared<MpiGroup>(MPI_COMM_WORLD, OnHostsOfTwo::options(), OnHostsOfTwo::pretence());
  MpiCollective collective{group};
  collective.barrier();
  // Rank 0 does not come, and rank 3 alone is told.
  auto const broadcast = [&] { collective.broadcast(std::span<float>{*new std::vector<float>(10)}, Rank{0}); };
  if (me() == 2) CHECK_THROWS_AS(broadcast(), raytrain::Stopped);
  if (me() == 3) {
    group->leave(Rank{0});
    CHECK(refusal(broadcast).starts_with("rank_mismatch: collective call: rank 0 has ended while rank 3 waits in "));
  }
  meet();
}

TEST_CASE("where ranks of several hosts are told that their calls differ, nothing is pending") {
  if (ranks() < 4) return;
  auto const group = std::make_shared<MpiGroup>(MPI_COMM_WORLD, CallsChecked::options(), OnManyHosts::pretence());
  MpiCollective collective{group};
  auto& values = *new std::vector<float>(10);
  CHECK(
      refusal([&] {
        if (me() == 1) return collective.barrier();
        collective.all_reduce(std::span<float>{values}, ReduceOp::sum);
      }).starts_with("rank_mismatch: collective call: rank 0 calls all_reduce(10 x float32, sum), but rank 1 calls "));
  CHECK_FALSE(group->has_pending());
  meet();
}

TEST_CASE("MPI can go on with what it has begun when an abort ends the wait for a rank of the same host") {
  if (ranks() < 4) return;
  {
    std::shared_ptr<MpiGroup> group;
    auto options = OnHostsOfTwo::options();
    options.limits.warn_after = 1ms;
    options.limits.on_warning = [&](auto const&) {
      if (group && me() % 2 == 0) group->abort();
    };
    group = std::make_shared<MpiGroup>(MPI_COMM_WORLD, options, OnHostsOfTwo::pretence());
    MpiCollective collective{group};
    // It begins after the others of its host have ended.
    if (me() == 3) MPI_Recv(nullptr, 0, MPI_INT, 2, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK_THROWS_AS(reduce_some(collective, 10), raytrain::Stopped);
    if (me() == 2) MPI_Send(nullptr, 0, MPI_INT, 3, 0, MPI_COMM_WORLD);
  }
  for (int i = 0; i < 100; ++i) meet();
}

TEST_CASE("ranks that share memory are told who has not come, without comparing calls") {
  if (ranks() < 2) return;
  MpiCollective collective{
      std::make_shared<MpiGroup>(MPI_COMM_WORLD, MpiOptions{.limits = {.timeout = 1s, .warn_after = {}}})};
  if (me() == 0) {
    CHECK(refusal([&] { collective.barrier(); }) ==
          "timed_out: barrier() on rank 0: " + others() + (ranks() == 2 ? " has" : " have") +
              " not come within 1 s; look at what is done there instead, or allow more time: "
              "RunConfig::collective_timeout, WaitLimits::timeout");
  }
  meet();
}

TEST_CASE("on several hosts, who waits for a rank of its own names it as all know it") {
  if (ranks() != 4) return;
  auto const group = std::make_shared<MpiGroup>(MPI_COMM_WORLD, MpiOptions{.limits = {.timeout = 1s, .warn_after = {}}},
                                                raytrain::detail::MpiPretence{.ranks_per_host = 2});
  MpiCollective collective{group};
  // Then the next one is not likely to be compared with the other host's, which would wait for rank 3 before.
  for (int i = 0; i < 40; ++i) reduce_some(collective, 2);
  // Of the other host, the first rank waits in vain for rank 2, and stops the other one.
  if (me() < 2) CHECK_THROWS(reduce_some(collective, 2));
  if (me() == 2) {
    CHECK(refusal([&] { reduce_some(collective, 2); })
              .ends_with(" on rank 2: rank 3 has not come within 1 s; look at what is done there instead, or allow "
                         "more time: RunConfig::collective_timeout, WaitLimits::timeout"));
  }
  meet();
}

TEST_CASE("a group says how its arrays travel") {
  auto const transport = [](MpiOptions const& options, std::uint32_t ranks_per_host) {
    raytrain::detail::MpiPretence const pretence{.ranks_per_host = ranks_per_host};
    return std::string{MpiGroup{MPI_COMM_WORLD, options, pretence}.transport()};
  };
  CHECK(transport({}, 0) == "memory that all ranks share");
  CHECK(transport({.share_memory = false}, 0) == "MPI");
  if (ranks() < 2) return;
  CHECK(transport({}, 1) == "MPI");
  if (ranks() == 4) CHECK(transport({}, 2) == "shared memory, and MPI between hosts");
}

TEST_CASE("a rank alone in its communicator needs nobody") {
  auto const group = std::make_shared<MpiGroup>(MPI_COMM_SELF);
  MpiCollective collective{group};
  reduce_some(collective, 10);
  collective.barrier();
  CHECK_FALSE(collective.stop_agreed());
  group->request_stop();
  CHECK(collective.stop_agreed());
}

TEST_CASE("what MPI refuses is an error with its own text") {
  CHECK(refusal([] { raytrain::detail::check_mpi(MPI_ERR_COUNT, "MPI_Iallreduce"); }) ==
        "backend: MPI_Iallreduce: " + text_of(MPI_ERR_COUNT) +
            "; read what mpirun and the other ranks say, since one of them may have failed first");
}

TEST_CASE("after an error of MPI every call fails with it") {
  if (ranks() < 2) return;
  MpiCollective collective{std::make_shared<MpiGroup>(MPI_COMM_WORLD, patient_options(),
                                                      raytrain::detail::MpiPretence{.largest_count = ~0UL})};
  // More elements than MPI can count, which it says before it looks at them.
  std::int8_t first = 0;
  std::span<std::int8_t> const values{&first, std::size_t{1} << 31U};
  std::string const before = "backend: MPI_Ibcast: ";
  std::string const after = "; read what mpirun and the other ranks say, since one of them may have failed first";
  auto said = refusal([&] { collective.broadcast(values, Rank{0}); });
  REQUIRE(said.starts_with(before));
  REQUIRE(said.ends_with(after));
  said = said.substr(before.size(), said.size() - before.size() - after.size());
  // Some say which argument of which call it was.
  CHECK(said.substr(0, text_of(MPI_ERR_COUNT).size()) == text_of(MPI_ERR_COUNT));
  CHECK(refusal([&] { collective.barrier(); }) == "backend: barrier() on rank " + std::to_string(me()) +
                                                      ": the group is unusable since " + said +
                                                      "; let the error end the training function");
  meet();
}

// Run by failing_rank.py alone.
TEST_CASE("planted: fails on the last rank" * doctest::skip()) { CHECK(me() != ranks() - 1); }
