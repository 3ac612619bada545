// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/collective/buffer.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/collective/shared_memory.hpp>
#include <raytrain/core/identifiers.hpp>

/// The processes of a test program that runs as several: all run the same tests, in the same order.
class Siblings {
 public:
  /// This process's place among them; of one process alone until `set`.
  static auto mine() -> raytrain::SharedMemoryCollective& { return *instance(); }
  static void set(std::shared_ptr<raytrain::SharedMemoryGroup> group, raytrain::Rank rank) {
    instance() = std::make_unique<raytrain::SharedMemoryCollective>(std::move(group), rank);
  }

 private:
  static auto instance() -> std::unique_ptr<raytrain::SharedMemoryCollective>& {
    static std::unique_ptr<raytrain::SharedMemoryCollective> collective;
    return collective;
  }
};

/// What of a group all siblings need to attach it: they open the creator's descriptor.
inline auto shared_group(raytrain::WorldSize size, raytrain::WaitLimits const& limits)
    -> std::shared_ptr<raytrain::SharedMemoryGroup> {
  auto& siblings = Siblings::mine();
  std::shared_ptr<raytrain::SharedMemoryGroup> group;
  std::array<std::int32_t, 2> where{};
  if (siblings.rank() == raytrain::Rank{0}) {
    group = raytrain::SharedMemoryGroup::create(size, limits);
    where = {::getpid(), group->descriptor()};
  }
  siblings.broadcast(std::span<std::int32_t>{where}, raytrain::Rank{0});
  if (!group) {
    auto const path = "/proc/" + std::to_string(where[0]) + "/fd/" + std::to_string(where[1]);
    int const descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    group = raytrain::SharedMemoryGroup::attach(descriptor, limits);
    ::close(descriptor);
  }
  siblings.barrier();
  return group;
}

/// A world of sibling processes, whose arrays only their owners see.
struct SharedWorld {
  static auto sizes() -> std::vector<std::uint32_t> { return {1, 2, 3, 4, 7}; }
  static auto crowd() -> std::uint32_t { return Siblings::mine().size().value; }
  static auto has(raytrain::WorldSize size) -> bool { return size <= Siblings::mine().size(); }
  static auto ranks_here(raytrain::WorldSize size) -> std::vector<std::uint32_t> {
    auto const rank = Siblings::mine().rank().value;
    return rank < size.value ? std::vector{rank} : std::vector<std::uint32_t>{};
  }

  template <class Work>
  static void run(raytrain::WorldSize size, Work const& work) {
    auto const group = shared_group(size, {.timeout = std::chrono::seconds{30}, .warn_after = {}});
    auto const rank = Siblings::mine().rank();
    if (rank.value < size.value) {
      raytrain::SharedMemoryCollective collective{group, rank};
      work(collective);
    }
    Siblings::mine().barrier();
  }
};

/// Hands on arrays in copies that it allocates where all see them, on all ranks or only on those with an odd number.
template <bool odd_only>
class Allocating final : public raytrain::Collective {
 public:
  explicit Allocating(raytrain::SharedMemoryCollective& collective) noexcept : collective_{collective} {}

  [[nodiscard]] auto rank() const noexcept -> raytrain::Rank override { return collective_.rank(); }
  [[nodiscard]] auto size() const noexcept -> raytrain::WorldSize override { return collective_.size(); }
  [[nodiscard]] auto stop_agreed() const noexcept -> bool override { return collective_.stop_agreed(); }

  [[nodiscard]] auto start(Task const& task) -> Pending override {
    bool const in_place = task.from.data() == task.to.data() && task.from.size() == task.to.size();
    auto const to = copy_of(task.to);
    auto const from = copy_of(task.from);
    auto handed_on = task;
    handed_on.to = std::as_writable_bytes(to.span());
    handed_on.from = std::as_bytes(in_place ? to.span() : from.span());
    collective_.start(handed_on).wait();
    if (!in_place && from.size() > 0) CHECK(std::memcmp(from.data(), task.from.data(), from.size()) == 0);
    if (to.size() > 0) std::memcpy(task.to.data(), to.data(), to.size());
    return {};
  }

 private:
  auto copy_of(std::span<std::byte const> values) -> raytrain::Buffer<std::uint8_t> {
    bool const visible = !odd_only || rank().value % 2 == 1;
    auto copy = visible
                    ? collective_.allocate<std::uint8_t>(values.size())
                    : raytrain::Buffer<std::uint8_t>{raytrain::detail::allocate_pages(values.size()), values.size()};
    if (!values.empty()) std::memcpy(copy.data(), values.data(), values.size());
    return copy;
  }

  raytrain::SharedMemoryCollective& collective_;
};

template <bool odd_only>
struct AllocatingWorld : SharedWorld {
  template <class Work>
  static void run(raytrain::WorldSize size, Work const& work) {
    SharedWorld::run(size, [&](raytrain::SharedMemoryCollective& collective) {
      Allocating<odd_only> allocating{collective};
      work(allocating);
    });
  }
};
