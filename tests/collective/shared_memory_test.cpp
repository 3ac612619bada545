// SPDX-License-Identifier: Apache-2.0
// Runs as several processes, each of which is a rank.
#include <raytrain/collective/shared_memory.hpp>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/testing/collective_conformance.hpp>
#include <raytrain/testing/collective_duplicates.hpp>
#include <raytrain/testing/collective_refusals.hpp>

#include "../support/temporary_folder.hpp"
#include "shared_world.hpp"

using raytrain::Rank;
using raytrain::ReduceOp;
using raytrain::SharedMemoryCollective;
using raytrain::SharedMemoryGroup;
using raytrain::WorldSize;
using raytrain::testing::refusal;

TEST_CASE_TEMPLATE_INVOKE(collective_conformance, SharedWorld, AllocatingWorld<false>, AllocatingWorld<true>);
TEST_CASE_TEMPLATE_INVOKE(collective_mismatches, SharedWorld);
TEST_CASE_TEMPLATE_INVOKE(collective_invalid_calls, SharedWorld);
TEST_CASE_TEMPLATE_INVOKE(collective_duplicates, SharedWorld);

namespace {

/// Tests of which one process makes all the ranks itself.
auto is_first() -> bool { return Siblings::mine().rank() == Rank{0}; }

/// A process that runs `work` and exits with what it returns.
template <class Work>
auto forked(Work const& work) -> ::pid_t {
  auto const child = ::fork();
  if (child != 0) return child;
  std::_Exit(work());
}

auto exit_status(::pid_t child) -> int {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/// Until the group is aborted.
void sum_for_ever(SharedMemoryCollective& collective, std::span<float> values) {
  try {
    for (;;) collective.all_reduce(values, ReduceOp::average);
  } catch (raytrain::Stopped const&) {
    return;
  }
}

auto open_descriptors() -> std::size_t {
  auto const all = std::filesystem::directory_iterator{"/proc/self/fd"};
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

}  // namespace

TEST_CASE("a group of no worker, or of more than there may be, is refused, as are limits that no wait can keep") {
  CHECK(refusal([] { (void)SharedMemoryGroup::create(WorldSize{0}); }) ==
        "invalid_call: SharedMemoryGroup: needs from 1 to 4096 workers (got 0)");
  CHECK(refusal([] { (void)SharedMemoryGroup::create(WorldSize{2}, {.timeout = {}}); }) ==
        "invalid_call: SharedMemoryGroup: the timeout must be above 0 (got 0 ms)");
  CHECK(refusal([] { SharedMemoryCollective(SharedMemoryGroup::create(WorldSize{2}), Rank{2}); }) ==
        "invalid_call: SharedMemoryCollective: rank must be below 2 (got 2)");
}

TEST_CASE("a descriptor that is not that of a group is refused, and none is left open") {
  auto const before = open_descriptors();
  CHECK(refusal([] { (void)SharedMemoryGroup::attach(-1); }) == "io: attaching descriptor -1: Bad file descriptor");
  raytrain::testing::TemporaryFolder const folder;
  auto const path = (folder.path() / "file").string();
  auto const attach_file_of = [&](::off_t size) {
    int const descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    REQUIRE(::ftruncate(descriptor, size) == 0);
    auto const told = refusal([&] { (void)SharedMemoryGroup::attach(descriptor); });
    ::close(descriptor);
    return told;
  };
  std::string const advice = "; pass on what descriptor() gave, to a program built with the same version of raytrain";
  std::string const begins = "invalid_call: attaching a SharedMemoryGroup: the descriptor is not that of a group";
  CHECK(attach_file_of(0) == begins + advice);
  CHECK(attach_file_of(100'000) == begins + " of this version" + advice);
  {
    auto const group = SharedMemoryGroup::create(WorldSize{2});
    auto const attached = SharedMemoryGroup::attach(group->descriptor());
    CHECK(attached->id() == group->id());
    CHECK(SharedMemoryGroup::create(WorldSize{2})->id() != group->id());
  }
  CHECK(open_descriptors() == before);
}

TEST_CASE("a group whose file is shorter than it says, or says what cannot be, is refused") {
  if (!is_first()) return;
  raytrain::testing::TemporaryFolder const folder;
  auto const path = (folder.path() / "file").string();
  auto const group = SharedMemoryGroup::create(WorldSize{2});
  struct {
    std::uint64_t magic, capacity, id;
    std::uint32_t members;
  } head{};
  REQUIRE(::pread(group->descriptor(), &head, sizeof head, 0) == sizeof head);
  REQUIRE(head.members == 2);
  struct stat status {};
  REQUIRE(::fstat(group->descriptor(), &status) == 0);
  auto const size = status.st_size;
  auto const attach = [&](auto changed, ::off_t bytes) {
    int const descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    REQUIRE(::ftruncate(descriptor, bytes) == 0);
    REQUIRE(::pwrite(descriptor, &changed, sizeof changed, 0) == sizeof changed);
    auto const told = refusal([&] { (void)SharedMemoryGroup::attach(descriptor); });
    ::close(descriptor);
    return told;
  };
  std::string const damaged =
      "invalid_call: attaching a SharedMemoryGroup: the group's memory is damaged; pass on what descriptor() gave, to "
      "a program built with the same version of raytrain";
  CHECK(attach(head, size) == "nothing");
  CHECK(attach(head, size - 1) == damaged);
  auto changed = head;
  changed.members = 0;
  CHECK(attach(changed, size) == damaged);
  changed.members = SharedMemoryGroup::max_size + 1;
  CHECK(attach(changed, size * 10'000) == damaged);
  changed = head;
  changed.capacity = static_cast<std::uint64_t>(size) - 1;
  CHECK(attach(changed, size) == damaged);
}

// Sanitizers ask for addresses themselves at any time.
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
TEST_CASE("a process that cannot have all addresses of the others is refused, and not surprised later") {
  if (!is_first()) return;
  auto const group = SharedMemoryGroup::create(WorldSize{1});
  auto const child = forked([&] {
    ::rlimit const little{1U << 30U, 1U << 30U};
    if (::setrlimit(RLIMIT_AS, &little) != 0) return 2;
    auto const told = refusal([&] { (void)SharedMemoryGroup::attach(group->descriptor()); });
    return told.starts_with("io: mapping ") ? 0 : 1;
  });
  CHECK(exit_status(child) == 0);
}
#endif

TEST_CASE("after one rank was killed, whenever that was, an abort from outside frees the others") {
  if (!is_first()) return;
  std::mt19937_64 random{raytrain::testing::random_seed()};
  for (int run = 0; run < 30; ++run) {
    CAPTURE(run);
    auto const group = SharedMemoryGroup::create(WorldSize{3});
    std::vector<::pid_t> children;
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      children.push_back(forked([&] {
        SharedMemoryCollective collective{group, Rank{rank}};
        auto const seen = collective.allocate<float>(50'000);
        std::vector<float> hidden(seen.size());
        sum_for_ever(collective, run % 2 == 0 ? seen.span() : std::span{hidden});
        return 0;
      }));
    }
    for (auto left = random() % 3'000'000; left > 0; --left) std::atomic_signal_fence(std::memory_order_seq_cst);
    ::kill(children[1], SIGKILL);
    CHECK(exit_status(children[1]) == -SIGKILL);
    group->abort();
    CHECK(exit_status(children[0]) == 0);
    CHECK(exit_status(children[2]) == 0);
  }
}

TEST_CASE("who waits for a process that does not come is told after the limit which one that is") {
  if (!is_first()) return;
  auto const group = SharedMemoryGroup::create(WorldSize{2}, {.timeout = std::chrono::milliseconds{20}});
  SharedMemoryCollective collective{group, Rank{0}};
  CHECK(refusal([&] { collective.barrier(); }) ==
        "timed_out: barrier() on rank 0: rank 1 has not come within 20 ms; look at what is done there instead, or "
        "allow more time: RunConfig::collective_timeout, WaitLimits::timeout");
  SharedMemoryCollective late{SharedMemoryGroup::attach(group->descriptor()), Rank{1}};
  CHECK(refusal([&] { late.barrier(); }).find("timed_out: barrier() on rank 1: the group is unusable since rank 0") ==
        0);
}

TEST_CASE("memory that is freed can be allocated again, as zeros, also by a process that was forked in between") {
  if (!is_first()) return;
  auto const group = SharedMemoryGroup::create(WorldSize{1});
  SharedMemoryCollective collective{group, Rank{0}};
  constexpr std::size_t size = 1'000'000;
  double* first_place = nullptr;
  for (int turn = 0; turn < 100; ++turn) {
    auto const array = collective.allocate<double>(size);
    if (turn == 0) first_place = array.data();
    REQUIRE(array.data() == first_place);
    REQUIRE(std::ranges::count(array.span(), 0.0) == size);
    std::ranges::fill(array.span(), 1.0);
  }
  auto const child = forked([&] {
    auto const other = collective.allocate<double>(size);
    std::ranges::fill(other.span(), 2.0);
    return 0;
  });
  auto const array = collective.allocate<double>(size);
  std::ranges::fill(array.span(), 3.0);
  CHECK(exit_status(child) == 0);
  CHECK(std::ranges::count(array.span(), 3.0) == size);
  CHECK_THROWS_AS((void)collective.allocate<double>(std::size_t{1} << 50U), std::bad_alloc);
}

TEST_CASE(
    "memory that is freed serves arrays of any size, so that arrays of many sizes in turn take no more addresses") {
  if (!is_first()) return;
  SharedMemoryCollective collective{SharedMemoryGroup::create(WorldSize{1}), Rank{0}};
  auto const kept = collective.allocate<std::uint8_t>(1);
  auto const* furthest = kept.end();
  for (std::size_t turn = 0; turn < 200; ++turn) {
    auto const pages = 256 + turn % 2 * 100 + turn;
    auto const array = collective.allocate<std::uint8_t>(pages * 4096);
    auto const other = collective.allocate<std::uint8_t>((turn + 1) * 4096);
    REQUIRE(std::ranges::count(array.span(), 0) == static_cast<std::ptrdiff_t>(array.size()));
    std::ranges::fill(array.span(), std::uint8_t{1});
    std::ranges::fill(other.span(), std::uint8_t{2});
    REQUIRE(std::ranges::count(array.span(), 1) == static_cast<std::ptrdiff_t>(array.size()));
    for (auto const* const end : {array.end(), other.end()}) furthest = std::max<std::uint8_t const*>(furthest, end);
  }
  CHECK(furthest - kept.data() < 16 << 20);
}

TEST_CASE("a rank whose collective is made anew goes on with the others, with arrays that only it sees, too") {
  if (!is_first()) return;
  auto const group = SharedMemoryGroup::create(WorldSize{2});
  auto const wrong_rounds = [&](Rank rank, bool is_made_anew) {
    std::optional<SharedMemoryCollective> collective;
    int wrong = 0;
    for (int round = 0; round < 9; ++round) {
      if (!collective || is_made_anew) collective.emplace(group, rank);
      std::vector<float> values(round % 3 == 0 ? 10U : 50'000U,
                                static_cast<float>(round) + static_cast<float>(rank.value));
      collective->all_reduce(std::span{values}, ReduceOp::sum);
      auto const sum = 2 * static_cast<float>(round) + 1;
      if (!std::ranges::all_of(values, [&](float value) { return value == sum; })) ++wrong;
    }
    return wrong;
  };
  auto const other = forked([&] { return wrong_rounds(Rank{1}, false); });
  CHECK(wrong_rounds(Rank{0}, true) == 0);
  CHECK(exit_status(other) == 0);
}

TEST_CASE("an array that there is no room for leaves the room to others") {
  if (!is_first()) return;
  SharedMemoryCollective collective{SharedMemoryGroup::create(WorldSize{1}), Rank{0}};
  auto const whole_memory = static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * 4096;
  CHECK_THROWS_AS((void)collective.allocate<std::uint8_t>(whole_memory), std::bad_alloc);
  CHECK(collective.allocate<std::uint8_t>(1).size() == 1);
}

TEST_CASE("an array stays as it is when a process that was forked lets go of it") {
  if (!is_first()) return;
  SharedMemoryCollective collective{SharedMemoryGroup::create(WorldSize{1}), Rank{0}};
  auto array = collective.allocate<double>(100'000);
  std::ranges::fill(array.span(), 3.0);
  auto const child = forked([&] {
    array = {};
    return 0;
  });
  CHECK(exit_status(child) == 0);
  CHECK(std::ranges::count(array.span(), 3.0) == 100'000);
}
