// SPDX-License-Identifier: Apache-2.0
// One archetype per defect: the concept must say no to each of them, and yes to the one that has none.
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <doctest/doctest.h>

#include <raytrain/collective/buffer.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/local.hpp>
#include <raytrain/collective/worker_collective.hpp>
#include <raytrain/core/element_type.hpp>

namespace {

using raytrain::Collective;
using raytrain::Element;
using raytrain::Rank;
using raytrain::ReduceOp;
using raytrain::WorldSize;

struct Minimal {
  auto rank() const noexcept -> Rank { return {}; }
  auto size() const noexcept -> WorldSize { return {1}; }
  auto stop_agreed() const noexcept -> bool { return false; }
  void barrier() {}
  template <class T>
  auto allocate(std::size_t) -> raytrain::Buffer<T> {
    return {};
  }
  friend void run_task(Minimal&, raytrain::detail::Task const&) {}
  template <class T>
  void all_reduce(std::span<T>, ReduceOp) {}
  template <class T>
  void broadcast(std::span<T>, Rank) {}
  template <class T>
  void all_gather(std::span<T const>, std::span<T>) {}
  template <class T>
  void reduce_scatter(std::span<T const>, std::span<T>, ReduceOp) {}
  template <class T>
  void reduce(std::span<T>, ReduceOp, Rank) {}
  template <class T>
  void gather(std::span<T const>, std::span<T>, Rank) {}
  template <class T>
  void scatter(std::span<T const>, std::span<T>, Rank) {}
  template <class T>
  void all_gatherv(std::span<T const>, std::span<T>, std::span<std::size_t const>) {}
};
static_assert(Collective<Minimal>);
static_assert(Collective<raytrain::LocalCollective>);
// Whatever satisfies the concept can be put into a worker.
static_assert(std::is_constructible_v<raytrain::WorkerCollective, Minimal>);
[[maybe_unused]] auto in_a_worker() -> raytrain::WorkerCollective { return {Minimal{}}; }

struct CannotMove : Minimal {
  CannotMove(CannotMove&&) = delete;
};
struct RankMayThrow : Minimal {
  auto rank() const -> Rank { return {}; }
};
struct RankIsAnInteger : Minimal {
  auto rank() const noexcept -> std::uint32_t { return 0; }
};
struct SizeMayThrow : Minimal {
  auto size() const -> WorldSize { return {1}; }
};
struct SizeIsAnInteger : Minimal {
  auto size() const noexcept -> std::uint32_t { return 1; }
};
struct StopAgreedMayThrow : Minimal {
  auto stop_agreed() const -> bool { return false; }
};
struct StopAgreedChangesIt : Minimal {
  auto stop_agreed() noexcept -> bool { return false; }
};
struct BarrierReturnsAHandle : Minimal {
  auto barrier() -> int { return 0; }
};
struct AllocateReturnsAPointer : Minimal {
  template <class T>
  auto allocate(std::size_t) -> T* {
    return nullptr;
  }
};
struct AllocateFloatsAlone : Minimal {
  auto allocate(std::size_t) -> raytrain::Buffer<float> { return {}; }
};
struct HandsOnNoTask : Minimal {
  friend void run_task(HandsOnNoTask&, raytrain::detail::Task const&) = delete;
};
struct AllReduceReturnsTheResult : Minimal {
  template <class T>
  auto all_reduce(std::span<T> values, ReduceOp) -> std::span<T> {
    return values;
  }
};
struct AllReduceOnlySums : Minimal {
  template <class T>
  void all_reduce(std::span<T>) {}
};
struct BroadcastWithoutRoot : Minimal {
  template <class T>
  void broadcast(std::span<T>) {}
};
struct AllGatherWantsToWriteItsSource : Minimal {
  template <class T>
  void all_gather(std::span<T>, std::span<T>) {}
};
struct ReduceScatterWithoutOp : Minimal {
  template <class T>
  void reduce_scatter(std::span<T const>, std::span<T>) {}
};
struct ReduceWithoutRoot : Minimal {
  template <class T>
  void reduce(std::span<T>, ReduceOp) {}
};
struct GatherReturnsTheResult : Minimal {
  template <class T>
  auto gather(std::span<T const>, std::span<T> all, Rank) -> std::span<T> {
    return all;
  }
};
struct ScatterWantsToWriteItsSource : Minimal {
  template <class T>
  void scatter(std::span<T>, std::span<T>, Rank) {}
};
struct AllGathervWantsToWriteTheCounts : Minimal {
  template <class T>
  void all_gatherv(std::span<T const>, std::span<T>, std::span<std::size_t>) {}
};
static_assert(!Collective<CannotMove>);
static_assert(!Collective<RankMayThrow> && !Collective<RankIsAnInteger>);
static_assert(!Collective<SizeMayThrow> && !Collective<SizeIsAnInteger>);
static_assert(!Collective<StopAgreedMayThrow> && !Collective<StopAgreedChangesIt>);
static_assert(!Collective<BarrierReturnsAHandle>);
static_assert(!Collective<AllocateReturnsAPointer> && !Collective<AllocateFloatsAlone>);
static_assert(!Collective<HandsOnNoTask>);
static_assert(!Collective<AllReduceReturnsTheResult> && !Collective<AllReduceOnlySums>);
static_assert(!Collective<BroadcastWithoutRoot>);
static_assert(!Collective<AllGatherWantsToWriteItsSource>);
static_assert(!Collective<ReduceScatterWithoutOp>);
static_assert(!Collective<ReduceWithoutRoot>);
static_assert(!Collective<GatherReturnsTheResult>);
static_assert(!Collective<ScatterWantsToWriteItsSource>);
static_assert(!Collective<AllGathervWantsToWriteTheCounts>);

template <class Missing>
struct LacksAType : Minimal {
  template <class T>
  requires(!std::is_same_v<T, Missing>) void all_reduce(std::span<T>, ReduceOp) {}
};
static_assert(Collective<LacksAType<bool>>);
static_assert(!Collective<LacksAType<float>> && !Collective<LacksAType<double>>);
static_assert(!Collective<LacksAType<std::int8_t>> && !Collective<LacksAType<std::int16_t>>);
static_assert(!Collective<LacksAType<std::int32_t>> && !Collective<LacksAType<std::int64_t>>);
static_assert(!Collective<LacksAType<std::uint8_t>> && !Collective<LacksAType<std::uint16_t>>);
static_assert(!Collective<LacksAType<std::uint32_t>> && !Collective<LacksAType<std::uint64_t>>);
static_assert(!Collective<LacksAType<raytrain::Float16>> && !Collective<LacksAType<raytrain::BFloat16>>);

static_assert(Element<float> && Element<std::int8_t> && Element<std::uint64_t> && Element<long long>);
static_assert(!Element<bool> && !Element<char> && !Element<long double> && !Element<float const> && !Element<Rank>);

}  // namespace

TEST_CASE("two C++ types of one size and kind are one element type, so that ranks may differ in the spelling") {
  CHECK(raytrain::element_type<long> == raytrain::element_type<long long>);
  CHECK(raytrain::element_type<unsigned char> == raytrain::ElementType::uint8);
  CHECK(raytrain::element_type<short> == raytrain::ElementType::int16);
  CHECK(raytrain::to_string(raytrain::element_type<std::uint32_t>) == "uint32");
}
