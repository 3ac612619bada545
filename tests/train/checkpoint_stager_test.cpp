// SPDX-License-Identifier: Apache-2.0
#include <raytrain/train/checkpoint_stager.hpp>

#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>

#include <doctest/doctest.h>

#include <raytrain/checkpoint/directory_store.hpp>

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

}  // namespace

TEST_CASE("the exception of a part that could not be written ends in the worker that it was thrown to") {
  TemporaryFolder const folder;
  DirectoryStore store{folder.path(), StartId{1}};
  BackgroundThread writer;
  WorkerLink link{{}, [](WorkerMessage const&) { throw Refused{}; }};
  CheckpointStager stager{store, writer, link};
  for (std::uint64_t checkpoint = 0; checkpoint < 200; ++checkpoint) {
    CAPTURE(checkpoint);
    CheckpointDraft draft;
    stager.stage(draft.add("model", "weights"), CheckpointOrdinal{checkpoint}, {});
    CHECK_THROWS_AS(stager.drain(), Refused);
    REQUIRE(ended_by.load() == std::this_thread::get_id());
  }
}
