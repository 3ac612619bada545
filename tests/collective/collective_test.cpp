// SPDX-License-Identifier: Apache-2.0
#include <raytrain/collective/collective.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/collective/local.hpp>
#include <raytrain/collective/shared_memory.hpp>
#include <raytrain/collective/wrapped_collective.hpp>
#include <raytrain/testing/collective_conformance.hpp>
#include <raytrain/testing/collective_refusals.hpp>

#include "../support/thrown_error.hpp"
#include "local_world.hpp"

namespace {

using namespace raytrain;

constexpr std::uint32_t ranks = 3;

// Runs `work` as each rank of a group, with the collective that `wrap` makes of it.
template <class Group, class Wrap, class Work>
void on_all_ranks(std::shared_ptr<Group> const& group, Wrap const& wrap, Work const& work) {
  std::vector<std::jthread> threads;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      auto collective = wrap(group, Rank{rank});
      work(collective);
    });
  }
}

auto shared(std::shared_ptr<SharedMemoryGroup> group, Rank rank) -> SharedMemoryCollective {
  return SharedMemoryCollective{std::move(group), rank};
}

template <Element T>
auto value(std::uint32_t number) -> T {
  if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<T>(number);
  } else {
    return T{static_cast<float>(number)};
  }
}

template <Element T>
auto number(T value) -> double {
  return static_cast<double>(static_cast<float>(value));
}

template <Element T>
void check_operations(Collective& collective) {
  auto const me = collective.rank().value;
  auto const buffer = collective.allocate<T>(ranks);
  for (std::uint32_t i = 0; i < ranks; ++i) buffer[i] = value<T>(i + me);
  collective.all_reduce(buffer.span(), ReduceOp::sum);
  for (std::uint32_t i = 0; i < ranks; ++i) CHECK(number(buffer[i]) == ranks * i + 3);

  std::array<T, 1> mine{value<T>(10 + me)};
  std::array<T, ranks> all{};
  collective.all_gather(std::span<T const>{mine}, std::span<T>{all});
  for (std::uint32_t i = 0; i < ranks; ++i) CHECK(number(all[i]) == 10 + i);

  std::vector<std::size_t> const counts{0, 1, 2};
  std::vector<T> parts(counts[me], value<T>(20 + me));
  std::vector<T> gathered(3);
  collective.all_gatherv(std::span<T const>{parts}, std::span<T>{gathered}, std::span<std::size_t const>{counts});
  for (std::size_t i = 0; i < gathered.size(); ++i) CHECK(number(gathered[i]) == (i == 0 ? 21 : 22));

  collective.broadcast(std::span<T>{all}, Rank{1});
  CHECK(number(all[0]) == 10);
  collective.barrier();
}

/// A model of the user's own, which performs what is started on a thread of its own.
class Deferred final : public Collective {
 public:
  explicit Deferred(Collective& inside) : inside_{inside} {}

  [[nodiscard]] auto rank() const noexcept -> Rank override { return inside_.rank(); }
  [[nodiscard]] auto size() const noexcept -> WorldSize override { return inside_.size(); }
  [[nodiscard]] auto stop_agreed() const noexcept -> bool override { return inside_.stop_agreed(); }

  [[nodiscard]] auto start(Task const& task) -> Pending override {
    return Pending{
        std::make_unique<Work>(std::async(std::launch::async, [this, task] { inside_.start(task).wait(); }))};
  }

 private:
  struct Work final : Pending::Work {
    explicit Work(std::future<void> begun) : result{std::move(begun)} {}
    void wait() override { result.get(); }
    std::future<void> result;
  };

  Collective& inside_;
};

struct DeferredWorld : LocalWorld {
  static auto crowd() -> std::uint32_t { return 8; }
  template <class Work>
  static void run(WorldSize size, Work const& work) {
    LocalWorld::run(size, [&](Collective& inside) {
      Deferred collective{inside};
      work(collective);
    });
  }
};

}  // namespace

TEST_CASE_TEMPLATE_INVOKE(collective_conformance, DeferredWorld);
TEST_CASE_TEMPLATE_INVOKE(collective_mismatches, DeferredWorld);
TEST_CASE_TEMPLATE_INVOKE(collective_invalid_calls, DeferredWorld);

TEST_CASE("a rank does something else while an operation that it has started goes on") {
  LocalWorld::run({2}, [](Collective& inside) {
    Deferred collective{inside};
    std::array<float, 1> values{static_cast<float>(collective.rank().value)};
    auto pending = collective.start(
        {{Collective::Operation::broadcast, ElementType::float32, {}, Rank{1}, 1},
         collective.rank() == Rank{1} ? std::as_bytes(std::span{values}) : std::span<std::byte const>{},
         std::as_writable_bytes(std::span{values})});
    std::vector<float> meanwhile{1};
    pending.wait();
    CHECK(values[0] == 1);
    collective.all_reduce(meanwhile, ReduceOp::sum);
    CHECK(meanwhile[0] == 2);
  });
}

TEST_CASE("what was started and never waited for has ended when its arrays may go, and its error comes again") {
  auto const group = std::make_shared<LocalGroup>(WorldSize{2});
  auto const told = LocalWorld::outcomes(group, [](Collective& inside) {
    Deferred collective{inside};
    {
      std::vector<float> values(inside.rank().value + 1);
      auto const pending =
          collective.start({{Collective::Operation::broadcast, ElementType::float32, {}, Rank{0}, values.size()},
                            std::as_bytes(std::span{values}),
                            std::as_writable_bytes(std::span{values})});
    }
    collective.barrier();
  });
  for (auto const& thrown : told) {
    REQUIRE(thrown);
    CHECK(raytrain::testing::refusal([&] { std::rethrow_exception(thrown); })
              .find("the group is unusable since rank 0 calls broadcast(1 x float32, root 0), but rank 1 calls "
                    "broadcast(2 x float32, root 0)") != std::string::npos);
  }
}

TEST_CASE_TEMPLATE("a collective is used without knowing its model, for every type", T, float, double, std::int8_t,
                   std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t,
                   Float16, BFloat16) {
  on_all_ranks(SharedMemoryGroup::create(WorldSize{ranks}), shared, [](Collective& collective) {
    CHECK(collective.size() == WorldSize{ranks});
    check_operations<T>(collective);
  });
}

TEST_CASE("arrays that know their size are as good as spans of them, in every operation") {
  on_all_ranks(
      std::make_shared<LocalGroup>(WorldSize{ranks}),
      [](auto group, Rank rank) {
        return LocalCollective{group, rank};
      },
      [](Collective& collective) {
        auto const me = static_cast<float>(collective.rank().value);
        Rank const root{1};
        bool const is_root = collective.rank() == root;
        auto const buffer = collective.allocate<float>(2);
        buffer[1] = me;
        collective.all_reduce(buffer, ReduceOp::sum);
        CHECK(buffer[1] == 3);
        std::vector<float> values{me};
        collective.reduce(values, ReduceOp::sum, root);
        CHECK(values == std::vector{is_root ? 3.0F : me});
        collective.broadcast(values, root);
        CHECK(values == std::vector{3.0F});

        std::array<float, ranks> all{};
        std::array<float, ranks> const expected{0, 1, 2};
        values = {me};
        collective.all_gather(values, all);
        CHECK(all == expected);
        all = {};
        collective.gather(values, all, root);
        CHECK((all == expected) == is_root);
        collective.scatter(expected, values, root);
        CHECK(values[0] == me);
        collective.reduce_scatter(expected, values, ReduceOp::sum);
        CHECK(values[0] == me * 3);
        all = {};
        values = {me};
        collective.all_gatherv(values, all, std::array<std::size_t, ranks>{1, 1, 1});
        CHECK(all == expected);
      });
}

TEST_CASE("a collective stops when its group does") {
  auto const check = [](auto const& group, auto const& wrap) {
    on_all_ranks(group, wrap, [&](Collective& collective) {
      CHECK_FALSE(collective.stop_agreed());
      if (collective.rank() == Rank{0}) group->request_stop();
      while (!collective.stop_agreed()) collective.barrier();
      if (collective.rank() == Rank{0}) return group->abort();
      CHECK_THROWS_AS(collective.barrier(), Stopped);
    });
  };
  check(std::make_shared<LocalGroup>(WorldSize{ranks}), [](auto group, Rank rank) {
    return LocalCollective{group, rank};
  });
  check(SharedMemoryGroup::create(WorldSize{ranks}), shared);
}

TEST_CASE("operations of one size with different tags are refused, and the error names both") {
  auto const tagged_calls = [](Collective& collective) {
    TaggedCollective tagged{collective, {.of = detail::CallOf::preparation, .model = 1}};
    auto const buffer = collective.allocate<float>(1000);
    tagged.broadcast(buffer.span(), Rank{0});
    tagged.tag() = {.of = detail::CallOf::backward,
                    .model = collective.rank() == Rank{2} ? std::uint16_t{2} : std::uint16_t{1},
                    .epoch = 3,
                    .number = 7,
                    .samples = 640};
    CHECK(
        raytrain::testing::refusal([&] { tagged.all_reduce(buffer.span(), ReduceOp::average); }) ==
        "rank_mismatch: collective call: rank 0 calls all_reduce(1000 x float32, average) for backward 7 of model 1 "
        "(after 640 samples of epoch 3), but rank 2 calls all_reduce(1000 x float32, average) for backward 7 of model "
        "2 (after 640 samples of epoch 3); make every rank run the same backwards in the same order, on as many "
        "batches of one size, and average after as many");
  };
  on_all_ranks(
      std::make_shared<LocalGroup>(WorldSize{ranks}),
      [](auto group, Rank rank) {
        return LocalCollective{std::move(group), rank};
      },
      tagged_calls);
  on_all_ranks(SharedMemoryGroup::create(WorldSize{ranks}), shared, tagged_calls);
}

TEST_CASE("steps of an optimizer that differ in their hash are refused, and the error says what that is of") {
  auto const step = [](Collective& collective) {
    auto const hash = collective.rank().value;
    TaggedCollective tagged{collective,
                            {.of = detail::CallOf::step, .model = 2, .part = 1, .number = 3, .samples = hash}};
    CHECK(raytrain::testing::refusal([&] { tagged.barrier(); }) ==
          "rank_mismatch: collective call: rank 0 calls barrier() for step 3 of optimizer 1 of model 2 with learning "
          "rates of its own, or gradients for other parameters, but rank 1 calls barrier() for step 3 of optimizer 1 "
          "of model 2 with learning rates of its own, or gradients for other parameters; make every rank take the same "
          "steps in the same order, with the same learning rates and as many gradients");
  };
  on_all_ranks(
      std::make_shared<LocalGroup>(WorldSize{ranks}),
      [](auto group, Rank rank) {
        return LocalCollective{std::move(group), rank};
      },
      step);
  on_all_ranks(SharedMemoryGroup::create(WorldSize{ranks}), shared, step);
}

TEST_CASE("a model without duplicates refuses to make one, and the error names those that have them") {
  LocalWorld::run({1}, [](Collective& inside) {
    Deferred collective{inside};
    CHECK(raytrain::testing::refusal([&] { (void)collective.duplicate(); }) ==
          "invalid_call: Collective::duplicate: this model of a collective has no duplicates; use one that has them: "
          "LocalCollective, SharedMemoryCollective or MpiCollective");
  });
}

TEST_CASE("a model whose rank is outside of its size is refused by what would read that rank's part") {
  class Outside final : public Collective {
   public:
    [[nodiscard]] auto rank() const noexcept -> Rank override { return {1}; }
    [[nodiscard]] auto size() const noexcept -> WorldSize override { return {1}; }
    [[nodiscard]] auto stop_agreed() const noexcept -> bool override { return false; }
    [[nodiscard]] auto start(Task const&) -> Pending override { return {}; }
  };
  Outside collective;
  std::vector<int> const mine(2);
  std::vector<int> all(2);
  std::vector<std::size_t> const counts{2};
  CHECK(testing::thrown_error([&] { collective.all_gatherv(mine, all, counts); })
            .find("Collective::rank() must be below size() "
                  "(got 1 and 1)") != std::string::npos);
}
