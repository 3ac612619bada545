// SPDX-License-Identifier: Apache-2.0
#include <raytrain/train/checkpoint_stager.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <future>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/checkpoint/checkpoint_copies.hpp>
#include <raytrain/checkpoint/directory_store.hpp>
#include <raytrain/testing/faulty_store.hpp>

#include "../support/function_queue.hpp"
#include "../support/temporary_folder.hpp"

using raytrain::testing::TemporaryFolder;

using namespace raytrain;

namespace {

std::atomic<std::thread::id> ended_by;

struct Refused : std::exception {
  Refused() = default;
  Refused(Refused const&) = default;
  auto operator=(Refused const&) -> Refused& = delete;
  ~Refused() override { ended_by = std::this_thread::get_id(); }
};

/// Whom a stager gives its parts to.
struct Counted {
  TemporaryFolder folder;
  std::atomic<int> written{0};  // files
  testing::FaultyStore store{std::make_shared<DirectoryStore>(folder.path()), [this](std::string_view) { ++written; }};
  BackgroundThread store_thread;
  std::atomic<int> told{0};  // of parts
  FunctionQueue queue{[this](WorkerMessage const&) { ++told; }};

  Counted() { store.begin(StartId{1}, {}); }
};

}  // namespace

TEST_CASE("the exception of a part that could not be written ends in the worker that it was thrown to") {
  TemporaryFolder const folder;
  DirectoryStore store{folder.path(), StartId{1}};
  BackgroundThread store_thread;
  FunctionQueue queue{[](WorkerMessage const&) { throw Refused{}; }};
  WorkerLink link{{}, queue};
  CheckpointStager stager{{.store = store, .store_thread = store_thread, .link = link}};
  for (std::uint64_t checkpoint = 0; checkpoint < 200; ++checkpoint) {
    CAPTURE(checkpoint);
    CheckpointDraft draft;
    stager.begin_staging(draft.add("model", "weights"), CheckpointOrdinal{checkpoint}, {});
    CHECK_THROWS_AS(stager.finish_staging(), Refused);
    REQUIRE(ended_by.load() == std::this_thread::get_id());
  }
}

TEST_CASE("a state is copied to where the one before was, and not before that one is written") {
  TemporaryFolder const folder;
  std::promise<void> let_write;
  std::atomic<int> written{0};
  testing::FaultyStore store{std::make_shared<DirectoryStore>(folder.path()), [&](std::string_view) {
                               if (written == 0) let_write.get_future().wait();
                               ++written;
                             }};
  store.begin(StartId{1}, {});
  BackgroundThread store_thread;
  FunctionQueue queue;
  WorkerLink link{{}, queue};
  CheckpointStager stager{{.store = store, .store_thread = store_thread, .link = link}};
  std::vector<std::byte const*> places;
  for (std::uint64_t checkpoint = 0; checkpoint < 4; ++checkpoint) {
    auto draft = CheckpointDraft::replicated([&](CheckpointDraft& part) {
      CHECK(written == static_cast<int>(checkpoint));
      places.push_back(part.allocate("model", std::size_t{1} << 20U).data());
    });
    std::jthread late;
    if (checkpoint == 1) late = std::jthread{[&] { let_write.set_value(); }};
    stager.fill(draft);
    stager.begin_staging(std::move(draft), CheckpointOrdinal{checkpoint}, {});
  }
  stager.finish_staging();
  CHECK(places == std::vector(4, places.front()));
}

TEST_CASE(
    "states that are held are copied to one place while another one is written, and the last of them is written") {
  TemporaryFolder const folder;
  std::promise<void> let_write;
  std::atomic<int> written{0};
  testing::FaultyStore store{std::make_shared<DirectoryStore>(folder.path()), [&](std::string_view) {
                               if (written++ == 0) let_write.get_future().wait();
                             }};
  store.begin(StartId{1}, {});
  BackgroundThread store_thread;
  std::vector<std::uint64_t> told;
  FunctionQueue queue{
      [&](WorkerMessage const& message) { told.push_back(std::get<CheckpointRef>(message).checkpoint.value); }};
  WorkerLink link{{}, queue};
  CheckpointStager stager{{.store = store, .store_thread = store_thread, .link = link}};
  std::vector<std::byte const*> places;
  auto const state = [&] {
    return CheckpointDraft::replicated(
        [&](CheckpointDraft& part) { places.push_back(part.allocate("model", std::size_t{1} << 20U).data()); });
  };
  auto draft = state();
  stager.fill(draft);
  stager.begin_staging(std::move(draft), CheckpointOrdinal{0}, {});
  for (std::uint64_t checkpoint = 1; checkpoint < 5; ++checkpoint) {
    draft = state();
    stager.fill_to_hold(draft);
    stager.hold(std::move(draft), CheckpointOrdinal{checkpoint}, {});
  }
  let_write.set_value();
  stager.begin_staging_held();
  stager.finish_staging();
  CHECK(places[1] != places[0]);
  CHECK(std::vector(places.begin() + 1, places.end()) == std::vector(4, places[1]));
  CHECK(told == std::vector<std::uint64_t>{0, 4});
  CHECK(written == 2);
}

TEST_CASE("of a part without files the controller is told at once by the worker, held or not, and nothing is written") {
  TemporaryFolder const folder;
  std::atomic<int> written{0};
  testing::FaultyStore store{std::make_shared<DirectoryStore>(folder.path()), [&](std::string_view) { ++written; }};
  store.begin(StartId{1}, {});
  BackgroundThread store_thread;
  std::vector<std::uint64_t> told;
  std::vector<std::thread::id> by;
  FunctionQueue queue{[&](WorkerMessage const& message) {
    told.push_back(std::get<CheckpointRef>(message).checkpoint.value);
    by.push_back(std::this_thread::get_id());
  }};
  WorkerLink link{{}, queue};
  CheckpointStager stager{{.store = store, .store_thread = store_thread, .link = link}};
  stager.begin_staging({}, CheckpointOrdinal{0}, {});
  CHECK(told == std::vector<std::uint64_t>{0});
  stager.hold({}, CheckpointOrdinal{1}, {});
  CHECK(told == std::vector<std::uint64_t>{0, 1});
  stager.begin_staging_held();
  stager.finish_staging();
  CHECK(told.size() == 2);
  CHECK((by == std::vector(2, std::this_thread::get_id())));
  CHECK(written == 0);
}

TEST_CASE("a part is written once its content is complete, for which the worker does not wait") {
  TemporaryFolder const folder;
  std::promise<void> let_complete;
  std::atomic<bool> is_complete{false};
  std::atomic<int> written_too_early{0};
  testing::FaultyStore store{std::make_shared<DirectoryStore>(folder.path()), [&](std::string_view) {
                               if (!is_complete) ++written_too_early;
                             }};
  store.begin(StartId{1}, {});
  BackgroundThread store_thread;
  std::vector<std::uint64_t> told;
  FunctionQueue queue{
      [&](WorkerMessage const& message) { told.push_back(std::get<CheckpointRef>(message).files.size()); }};
  WorkerLink link{{}, queue};
  CheckpointStager stager{{.store = store, .store_thread = store_thread, .link = link}};
  auto draft = CheckpointDraft::replicated([&](CheckpointDraft& part) {
    part.add_incomplete("model", SharedBytes{Bytes(8)}, [&](auto const&) {
      let_complete.get_future().wait();
      is_complete = true;
    });
  });
  stager.fill(draft);
  stager.begin_staging(std::move(draft), CheckpointOrdinal{0}, {});
  let_complete.set_value();
  stager.finish_staging();
  CHECK(is_complete);
  CHECK(written_too_early == 0);
  CHECK(told == std::vector<std::uint64_t>{1});
}

TEST_CASE(
    "a part whose content cannot be completed is not written, and its worker is told why, also a copy of another's") {
  for (auto const is_copy : {false, true}) {
    CAPTURE(is_copy);
    Counted counted;
    WorkerLink link{{.world_rank = Rank{is_copy ? 1U : 0U}, .world_size = WorldSize{2}}, counted.queue};
    CheckpointStager stager{{.store = counted.store,
                             .store_thread = counted.store_thread,
                             .link = link,
                             .on_failed_write = OnFailedWrite::warn,
                             .copies = {.kept = std::make_shared<CheckpointCopies>(), .of_replicated = is_copy}}};
    auto draft = CheckpointDraft::replicated([](CheckpointDraft& part) {
      part.add_incomplete("model", SharedBytes{Bytes(8)}, [](auto const&) { throw Refused{}; });
    });
    stager.fill(draft);
    stager.begin_staging(std::move(draft), CheckpointOrdinal{0}, {});
    CHECK_THROWS_AS(stager.finish_staging(), Refused);
    CHECK(counted.written == 0);
    CHECK(counted.told == 0);
  }
}

TEST_CASE("a part that is given up while its content is to come is not written, and nobody is told of it") {
  for (auto const is_aborted : {false, true}) {
    CAPTURE(is_aborted);
    Counted counted;
    WorkerLink link{{}, counted.queue};
    std::stop_source failed;
    CheckpointStager stager{{.store = counted.store,
                             .store_thread = counted.store_thread,
                             .link = link,
                             .failed = failed.get_token(),
                             .grace_after_failure = std::chrono::milliseconds{0}}};
    std::promise<void> waits;
    auto draft = CheckpointDraft::replicated([&](CheckpointDraft& part) {
      part.add_incomplete("model", SharedBytes{Bytes(8)}, [&](CheckpointDraft::IsGivenUp const& is_given_up) {
        waits.set_value();
        while (!is_given_up()) std::this_thread::yield();
        throw Stopped{};
      });
    });
    stager.fill(draft);
    stager.begin_staging(std::move(draft), CheckpointOrdinal{0}, {});
    waits.get_future().wait();
    if (is_aborted) {
      link.deliver(Stop{.abort = true});
    } else {
      failed.request_stop();
    }
    stager.finish_staging();
    CHECK(counted.written == 0);
    CHECK(counted.told == 0);
  }
}

TEST_CASE("a part whose content is late does not hold up that of another worker of the process") {
  Counted counted;
  WorkerLink late_link{{.world_rank = Rank{1}, .world_size = WorldSize{2}}, counted.queue};
  WorkerLink link{{.world_rank = Rank{0}, .world_size = WorldSize{2}}, counted.queue};
  CheckpointStager late_stager{{.store = counted.store, .store_thread = counted.store_thread, .link = late_link}};
  CheckpointStager stager{{.store = counted.store, .store_thread = counted.store_thread, .link = link}};
  std::promise<void> let_complete;
  std::atomic<bool> is_let{false};
  auto late = CheckpointDraft::sharded([&](CheckpointDraft& part) {
    part.add_incomplete("late", SharedBytes{Bytes(8)}, [&](auto const&) {
      constexpr std::chrono::seconds longest{10};
      is_let = let_complete.get_future().wait_for(longest) == std::future_status::ready;
    });
  });
  late_stager.fill(late);
  late_stager.begin_staging(std::move(late), CheckpointOrdinal{0}, {});
  CheckpointDraft draft;
  stager.begin_staging(draft.add("model", "weights"), CheckpointOrdinal{0}, {});
  stager.finish_staging();
  CHECK(counted.told == 1);
  let_complete.set_value();
  late_stager.finish_staging();
  CHECK(is_let);
  CHECK(counted.written == 2);
  CHECK(counted.told == 2);
}

TEST_CASE("a copy of another rank's part that a failed report has begun is in no later checkpoint") {
  TemporaryFolder const folder;
  DirectoryStore store{folder.path(), StartId{1}};
  BackgroundThread store_thread;
  FunctionQueue queue{[](WorkerMessage const&) {}};
  WorkerLink link{{.world_rank = Rank{1}, .world_size = WorldSize{2}}, queue};
  auto const kept = std::make_shared<CheckpointCopies>();
  CheckpointStager stager{
      {.store = store, .store_thread = store_thread, .link = link, .copies = {.kept = kept, .of_replicated = true}}};
  auto failing = CheckpointDraft::replicated([](CheckpointDraft& part) {
    part.add("model", "of the report that failed");
    throw Refused{};
  });
  CHECK_THROWS_AS(stager.fill(failing), Refused);
  CheckpointDraft draft;
  draft.add("sums", "own");
  stager.fill(draft);
  stager.begin_staging(std::move(draft), CheckpointOrdinal{0}, {});
  stager.finish_staging();
  kept->settle({CheckpointOrdinal{0}, CheckpointNumber{1}, {}});
  CHECK_FALSE(kept->find(CheckpointNumber{1}, "model"));
}

TEST_CASE("of a rank that only keeps a copy the controller is told once the copy is complete, held or not") {
  for (auto const is_held : {false, true}) {
    CAPTURE(is_held);
    TemporaryFolder const folder;
    DirectoryStore store{folder.path(), StartId{1}};
    BackgroundThread store_thread;
    std::atomic<bool> is_complete{false};
    std::vector<bool> told;
    FunctionQueue queue{[&](WorkerMessage const& message) {
      CHECK(std::get<CheckpointRef>(message).files.empty());
      told.push_back(is_complete);
    }};
    WorkerLink link{{.world_rank = Rank{1}, .world_size = WorldSize{2}}, queue};
    auto const kept = std::make_shared<CheckpointCopies>();
    CheckpointStager stager{
        {.store = store, .store_thread = store_thread, .link = link, .copies = {.kept = kept, .of_replicated = true}}};
    auto draft = CheckpointDraft::replicated([&](CheckpointDraft& part) {
      part.add_incomplete("model", SharedBytes{Bytes(8)}, [&](auto const&) { is_complete = true; });
    });
    is_held ? stager.fill_to_hold(draft) : stager.fill(draft);
    if (is_held) {
      stager.hold(std::move(draft), CheckpointOrdinal{0}, {});
      stager.begin_staging_held();
    } else {
      stager.begin_staging(std::move(draft), CheckpointOrdinal{0}, {});
    }
    stager.finish_staging();
    CHECK(told == std::vector{true});
    kept->settle({CheckpointOrdinal{0}, CheckpointNumber{1}, {}});
    CHECK(kept->find(CheckpointNumber{1}, "model"));
  }
}

TEST_CASE("a worker that knows of a checkpoint's commit still does when the one before is committed after it") {
  FunctionQueue queue;
  WorkerLink link{{}, queue};
  link.deliver(CheckpointSettled{CheckpointOrdinal{1}, CheckpointNumber{1}});
  auto const settled = link.settled(CheckpointOrdinal{1});
  REQUIRE(settled.has_value());
  CHECK(settled->is_committed);
  link.deliver(CheckpointSettled{CheckpointOrdinal{0}, {}});
  CHECK(link.settled(CheckpointOrdinal{1}) == settled);
  link.deliver(CheckpointSettled{CheckpointOrdinal{2}, {}});
  CHECK_FALSE(link.settled(CheckpointOrdinal{2}).value().is_committed);
}
