// SPDX-License-Identifier: Apache-2.0
#include <raytrain/checkpoint/detail/durable_files.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/checkpoint/detail/read_file.hpp>
#include <raytrain/checkpoint/snapshot_buffers.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/xxh3.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/thrown_error.hpp"
#include "faulty_files.hpp"

using namespace raytrain;
using raytrain::testing::TemporaryFolder;
using raytrain::testing::thrown_error;
using Steps = std::vector<std::string>;

namespace {

/// A state as a draft has it, which is large enough to be written past the cache, and is no whole number of blocks.
class LargeState {
 public:
  static constexpr std::size_t size_bytes = (std::size_t{17} << 20U) + 123;

  LargeState() {
    for (std::size_t i = 0; i < size_bytes; ++i) memory_.get()[i] = static_cast<std::byte>(i * i >> 8U);
  }
  [[nodiscard]] auto view() const -> BytesView { return {memory_.get(), size_bytes}; }

 private:
  std::shared_ptr<std::byte> memory_ = SnapshotBuffers{}.take("state", size_bytes);
};

struct Written {
  Steps steps;
  Bytes content;
  std::string hash;
};

/// With the errno by which each next step fails, 0 for none; further steps go well.
auto write(BytesView content, std::vector<int> problems = {}, std::size_t write_bytes = SIZE_MAX) -> Written {
  TemporaryFolder const folder;
  Written written;
  FaultyFiles files;
  files.write_bytes = write_bytes;
  files.before = [&](std::string const& step) {
    written.steps.push_back(step);
    auto const number = written.steps.size() - 1;
    return number < problems.size() ? problems[number] : 0;
  };
  written.hash = detail::write_file(files, folder.path() / "state", content);
  written.content = detail::read_file(folder.path() / "state");
  return written;
}

void check_whole(Written const& written, BytesView content) {
  CHECK(std::ranges::equal(written.content, content));
  CHECK(written.hash == detail::xxh3_of(content));
}

}  // namespace

TEST_CASE("a large state is written past the cache but for its last bytes, and hashed as a whole") {
  LargeState const state;
  auto const written = write(state.view());
  check_whole(written, state.view());
  CHECK(written.steps == Steps{"create", "set_direct", "write", "write", "set_buffered", "write", "sync"});
}

TEST_CASE("what is small, or lies at no block's beginning, is written through the cache") {
  LargeState const state;
  for (auto const content : {state.view().first(1U << 20U), state.view().subspan(8)}) {
    auto const written = write(content);
    check_whole(written, content);
    CHECK(std::ranges::find(written.steps, "set_direct") == written.steps.end());
  }
}

TEST_CASE("a file system that writes nothing past the cache gets the state through it") {
  LargeState const state;
  check_whole(write(state.view(), {0, EINVAL}), state.view());
  auto const refused_later = write(state.view(), {0, 0, EINVAL});
  check_whole(refused_later, state.view());
  CHECK(refused_later.steps[3] == "set_buffered");
}

TEST_CASE("writes that are cut short at any byte leave a whole file") {
  LargeState const state;
  check_whole(write(state.view(), {}, 1'000'001), state.view());
}

TEST_CASE("a fault of the disk in the middle of a large state is told, and so is a file that stays past the cache") {
  LargeState const state;
  CHECK(thrown_error([&] {
          (void)write(state.view(), {0, 0, 0, EIO});
        }).find("Input/output error") != std::string::npos);
  CHECK(thrown_error([&] {
          (void)write(state.view(), {0, 0, 0, 0, EIO});
        }).find("Input/output error") != std::string::npos);
}
