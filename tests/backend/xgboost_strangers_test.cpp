// SPDX-License-Identifier: Apache-2.0
// Whoever connects to a tracker without being a worker of its run, while XGBoost's workers come together.
#include <raytrain/backend/xgboost/xgboost_communicator.hpp>
#include <raytrain/backend/xgboost/xgboost_tracker.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "../support/thrown_error.hpp"
#include "tracker_ends.hpp"
#include "xgboost_workers.hpp"

using namespace raytrain;
using namespace raytrain::testing;
using std::chrono::milliseconds;

namespace {

auto number(std::int32_t value) -> std::string {
  std::array<char, sizeof value> raw{};
  std::memcpy(raw.data(), &value, sizeof value);
  return {raw.data(), raw.size()};
}

/// Two workers come, sum and go.
void check_workers(XGBoostTracker const& tracker) {
  auto const errors = on_threads(2, [&](Rank rank) {
    XGBoostCommunicator communicator{tracker.worker_arguments(), rank};
    CHECK(summed(1) == 2);
    communicator.finalize();
  });
  CHECK(errors == std::vector<std::string>(2));
  CHECK_FALSE(tracker.error());
}

}  // namespace

TEST_CASE("strangers are told of and change nothing, whatever they send to a tracker") {
  auto const magic = number(0xff99);
  // Two numbers for versions whose greeting has them; where it has none they are a string's size and its beginning.
  auto const ranks = library_tracks ? std::string{} : number(-1) + number(-1);
  std::vector<std::pair<std::string, std::string>> const strangers{
      {"GET / HTTP/1.1\r\n\r\n", "sent something else than rabit's magic number"},
      {magic + ranks + number(0x7fffffff), "sent a string of 2147483647 bytes where 1 to 4096 are allowed"},
      {magic + ranks + number(-1), "sent a string of -1 bytes where 1 to 4096 are allowed"},
      {magic + ranks + number(0), "sent a string of 0 bytes where 1 to 4096 are allowed"},
      {magic + ranks + number(5) + "hello" + number(5) + "start", "is no worker of this run"},
      {magic + ranks + number(100) + "half", " bytes of a greeting in 100 ms"},
      {"", "sent 0 bytes of a greeting in 100 ms"}};
  auto const before = open_descriptors();
  {
    TrackerLog log;
    XGBoostTracker const tracker{{.world = WorldSize{2}, .greeting_timeout = milliseconds{100}}, log.events()};
    for (auto const& [bytes, text] : strangers) {
      RawPeer const peer{address_of(tracker.worker_arguments())};
      peer.send(bytes_of(bytes));
      CHECK(peer.is_closed());
      check_contains(log.wait_for_stranger(text), "tcp:127.0.0.1:");
    }
    { RawPeer const gone{address_of(tracker.worker_arguments())}; }
    log.wait_for_stranger("left in its greeting, after 0 bytes");
    check_workers(tracker);
    CHECK(log.strangers.size() == strangers.size() + 1);
  }
  CHECK(descriptors_return_to(before));
}

TEST_CASE("two hundred silent strangers neither keep workers out nor cost many descriptors") {
  constexpr std::size_t count = 200;
  auto const before = open_descriptors();
  {
    TrackerLog log;
    XGBoostTracker const tracker{{.world = WorldSize{2}, .max_strangers = 16}, log.events()};
    std::vector<RawPeer> strangers;
    for (std::size_t i = 0; i < count; ++i) strangers.emplace_back(address_of(tracker.worker_arguments()));
    check_workers(tracker);
    CHECK(open_descriptors() < before + count + count / 2);
    CHECK(log.wait_for_stranger("made way") != "");
    CHECK(log.strangers.size() == 9);
    CHECK(log.strangers.back() == "there are more, which are not told of");
  }
  CHECK(descriptors_return_to(before));
}

TEST_CASE("a tracker ends although strangers say nothing to it") {
  auto const before = open_descriptors();
  {
    std::vector<RawPeer> strangers;
    std::optional<XGBoostTracker> tracker;
    tracker.emplace(XGBoostTracker::Options{.world = WorldSize{2}});
    for (int i = 0; i < 5; ++i) strangers.emplace_back(address_of(tracker->worker_arguments()));
    auto const begin = std::chrono::steady_clock::now();
    tracker.reset();
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds{1});
    for (auto const& stranger : strangers) CHECK(stranger.is_closed());
  }
  CHECK(descriptors_return_to(before));
}
