// SPDX-License-Identifier: Apache-2.0
#include <raytrain/checkpoint/snapshot_buffers.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <optional>

#include <doctest/doctest.h>

#include <raytrain/checkpoint/checkpoint_draft.hpp>

#include "../support/thrown_error.hpp"

using namespace raytrain;
using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;

TEST_CASE("memory that is free again is given for the same name and as many bytes or fewer, else new one is") {
  SnapshotBuffers buffers;
  auto first = buffers.take("model", 10'000);
  CHECK(reinterpret_cast<std::uintptr_t>(first.get()) % SnapshotBuffers::alignment_bytes == 0);
  std::memset(first.get(), 7, 10'000);
  auto const* const place = first.get();
  SUBCASE("the same") {
    first.reset();
    CHECK(buffers.take("model", 10'000).get() == place);
    auto const fewer = buffers.take("model", 6'000);
    CHECK(fewer.get() == place);
    CHECK(*fewer == std::byte{7});  // nothing is filled with zeros
  }
  SUBCASE("in use") { CHECK(buffers.take("model", 10'000).get() != place); }
  SUBCASE("another name") {
    first.reset();
    CHECK(buffers.take("optimizer", 10'000).get() != place);
  }
  SUBCASE("a little more") {
    first.reset();
    CHECK(buffers.take("model", 11'000).get() == place);
  }
  SUBCASE("more") {
    first.reset();
    auto more = buffers.take("model", 100'000);
    std::memset(more.get(), 7, 100'000);
    auto const* const new_place = more.get();
    more.reset();
    CHECK(buffers.take("model", 60'000).get() == new_place);
  }
  SUBCASE("far fewer") {
    first.reset();
    CHECK(buffers.free_bytes() > 10'000);
    (void)buffers.take("model", 100);
    CHECK(buffers.free_bytes() < 10'000);
  }
}

TEST_CASE("memory that a checkpoint did without is let go of before the one after it") {
  SnapshotBuffers buffers;
  buffers.begin_checkpoint();
  (void)buffers.take("often", 10'000);
  (void)buffers.take("once", 100'000);
  buffers.begin_checkpoint();
  CHECK(buffers.free_bytes() > 110'000);
  (void)buffers.take("often", 10'000);
  buffers.begin_checkpoint();
  CHECK(buffers.free_bytes() > 10'000);
  CHECK(buffers.free_bytes() < 100'000);
}

TEST_CASE("more memory than there can be is no memory") {
  SnapshotBuffers buffers;
  CHECK_THROWS_AS((void)buffers.take("model", 16'397'105'843'297'379'208U), std::bad_alloc);
}

TEST_CASE("memory outlives the buffers that gave it") {
  std::optional<SnapshotBuffers> buffers{std::in_place};
  auto const memory = buffers->take("model", 100);
  buffers.reset();
  std::memset(memory.get(), 7, 100);
  CHECK(memory.get()[99] == std::byte{7});
}

TEST_CASE("a draft's allocated file is the bytes that are put there, in the buffers of whoever fills it") {
  SnapshotBuffers buffers;
  std::byte const* before = nullptr;
  for (auto const value : {std::byte{1}, std::byte{2}}) {
    auto draft = CheckpointDraft::replicated([&](CheckpointDraft& part) {
      auto const memory = part.allocate("model", 100);
      CHECK((before == nullptr || memory.data() == before));
      before = memory.data();
      memory[99] = value;
    });
    draft.fill(Rank{0}, buffers);
    CHECK(draft.files().at("model").size() == 100);
    CHECK(draft.files().at("model").view()[99] == value);
  }
}

TEST_CASE("a draft allocates for no name twice, and without buffers, too") {
  CheckpointDraft draft;
  draft.allocate("model", 3)[2] = std::byte{7};
  CHECK(draft.files().at("model").view()[2] == std::byte{7});
  check_contains(thrown_error([&] { return draft.allocate("model", 3); }),
                 "'model' to a checkpoint: it was added before");
}
