// SPDX-License-Identifier: Apache-2.0
#include <raytrain/message/codec.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "../support/thrown_error.hpp"
#include "sample_messages.hpp"

using namespace raytrain;
using raytrain::testing::controller_messages;
using raytrain::testing::thrown_error;
using raytrain::testing::worker_messages;

namespace {

template <class M>
auto payload_of(M const& message) -> Bytes {
  auto frame = encode(message);
  frame.erase(frame.begin(), frame.begin() + frame_header_bytes);
  return frame;
}

auto hex(BytesView bytes) -> std::string {
  std::string text;
  for (auto const byte : bytes) text += fmt::format("{:02x}", std::to_integer<int>(byte));
  return text;
}

template <class M = WorkerMessage>
auto refusal(Bytes const& payload) -> std::string {
  return thrown_error([&] { (void)decode<M>(payload); });
}

/// Calls `check` with the messages of each direction, which differ in type.
template <class Check>
void in_each_direction(Check const& check) {
  check(worker_messages());
  check(controller_messages());
}

/// Version, kind, attempt 1, then these bytes.
auto forged(std::uint8_t kind, std::initializer_list<std::uint8_t> fields) -> Bytes {
  Bytes payload{std::byte{protocol_version}, std::byte{kind}, std::byte{1}};
  payload.resize(payload.size() + 7);
  for (auto const field : fields) payload.push_back(std::byte{field});
  return payload;
}

}  // namespace

TEST_CASE("a message of every kind is decoded to what was encoded, in each direction") {
  in_each_direction([]<class M>(std::vector<M> const& messages) {
    std::set<std::size_t> kinds;
    for (auto const& message : messages) {
      CAPTURE(message.index());
      CHECK(decode<M>(payload_of(message)) == message);
      kinds.insert(message.index());
    }
    CHECK(kinds.size() == std::variant_size_v<M>);
  });
}

TEST_CASE("a message of the wrong direction is refused, and the refusal says who sends such") {
  for (auto const& message : worker_messages()) {
    CAPTURE(message.index());
    CHECK(refusal<ControllerMessage>(payload_of(message)) ==
          "bad_message: decoding a message: its kind is " + std::to_string(message.index()) + ", which a worker sends");
  }
  for (auto const& message : controller_messages()) {
    CAPTURE(message.index());
    CHECK(refusal<WorkerMessage>(payload_of(message)) == "bad_message: decoding a message: its kind is " +
                                                             std::to_string(64 + message.index()) +
                                                             ", which a controller sends");
  }
}

TEST_CASE("the bytes of protocol version 12 are these") {
  CHECK(protocol_version == 12);
  CHECK(hex(encode(Stop{true})) ==
        "0d000000"
        "0c"
        "40"
        "0100000000000000"
        "010000");
  CHECK(hex(encode(Progress{Rank{258}, 1, 2, "ab"})) ==
        "28000000"
        "0c"
        "03"
        "0100000000000000"
        "02010000"
        "0100000000000000"
        "0200000000000000"
        "0200000000000000"
        "6162");
  Report report;
  report.time_total_s = 1.0;
  report.timestamp_ns = -1;
  report.checkpoint = CheckpointOrdinal{2};
  report.metrics = {{"a", 2.0}};
  CHECK(hex(encode(report)) ==
        "5e000000"
        "0c"
        "01"
        "0100000000000000"
        "00000000"
        "0000000000000000"
        "0000000000000000"
        "000000000000f03f"
        "0000000000000000"
        "ffffffffffffffff"
        "00"
        "0200000000000000"
        "0100000000000000"
        "0100000000000000"
        "61"
        "02000000"
        "0000000000000040"
        "00"
        "01");
}

TEST_CASE("a NaN arrives as a NaN") {
  Report report;
  report.metrics = {{"loss", std::numeric_limits<double>::quiet_NaN()}};
  auto const received = std::get<Report>(decode<WorkerMessage>(payload_of(report)));
  CHECK(std::isnan(received.metrics.number("loss").value()));
}

TEST_CASE("a message that is cut anywhere is refused") {
  in_each_direction([]<class M>(std::vector<M> const& messages) {
    for (auto const& message : messages) {
      auto const whole = payload_of(message);
      for (std::size_t length = 0; length < whole.size(); ++length) {
        CAPTURE(message.index());
        CAPTURE(length);
        Bytes const part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
        CHECK(refusal<M>(part).starts_with("bad_message: decoding a message: "));
      }
    }
  });
}

TEST_CASE("bytes after a message's end are refused") {
  in_each_direction([]<class M>(std::vector<M> const& messages) {
    for (auto const& message : messages) {
      auto payload = payload_of(message);
      payload.push_back(std::byte{0});
      CHECK(refusal<M>(payload) == "bad_message: decoding a message: 1 bytes follow its end");
    }
  });
}

TEST_CASE("another protocol version is refused, and the message says both and what to do") {
  auto payload = payload_of(Stop{true});
  payload[0] = std::byte{2};
  CHECK(refusal<ControllerMessage>(payload) ==
        "bad_message: decoding a message: it has protocol version 2, and this side has 12; run the same build on every "
        "host");
}

TEST_CASE("a kind of message that does not exist is refused with its number") {
  CHECK(refusal(forged(11, {})) == "bad_message: decoding a message: its kind is 11, and there are 11");
  CHECK(refusal<ControllerMessage>(forged(71, {})) ==
        "bad_message: decoding a message: its kind is 71, and there are 6");
  for (std::uint8_t const kind : {128, 192, 255}) {
    auto const expected = "its kind is " + std::to_string(kind) + ", and there are ";
    CHECK(refusal(forged(kind, {})).find(expected) != std::string::npos);
    CHECK(refusal<ControllerMessage>(forged(kind, {})).find(expected) != std::string::npos);
  }
}

TEST_CASE("a text that claims more bytes than there are is refused before memory is taken for it") {
  CHECK(refusal(forged(4, {/* no rank */ 1, /* size */ 0, 0, 0, 0, 1, 0, 0, 0, 'x'})) ==
        "bad_message: decoding a message: a size is 4294967296 where 1 bytes are left");
  CHECK(refusal(forged(4, {/* no rank */ 1, /* size */ 255, 255, 255, 255, 255, 255, 255, 255, 'x'})) ==
        "bad_message: decoding a message: a size is 18446744073709551615 where 1 bytes are left");
}

TEST_CASE("a list that claims more files than there are bytes is refused before memory is taken for it") {
  CHECK(refusal(forged(2, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, /* size */ 0, 0, 0, 0, 1, 0, 0, 0})) ==
        "bad_message: decoding a message: a size is 4294967296 where 0 bytes are left");
}

TEST_CASE("a truth value that is neither 0 nor 1 is refused") {
  CHECK(refusal<ControllerMessage>(forged(64, {2})) == "bad_message: decoding a message: a truth value is 2");
}

TEST_CASE("a metric of a type that does not exist is refused") {
  Report report;
  report.metrics = {{"a", true}};
  for (std::uint8_t const type : {4, 255}) {
    auto payload = payload_of(report);
    auto const place = payload.size() - 6;  // 32 bits of type, 8 of value and 8 of what follows the metrics at the end
    REQUIRE(payload[place] == std::byte{0});
    payload[place] = std::byte{type};
    CHECK(refusal(payload).starts_with("bad_message: decoding a message: "));
    payload[place + 3] = std::byte{255};
    CHECK(refusal(payload).starts_with("bad_message: decoding a message: "));
  }
}

TEST_CASE("a metric that is there twice is refused with its name") {
  Report report;
  report.metrics = {{"a", true}, {"b", true}};
  auto payload = payload_of(report);
  auto const place = payload.size() - 8;
  REQUIRE(payload[place] == std::byte{'b'});
  payload[place] = std::byte{'a'};
  CHECK(refusal(payload) == "bad_message: decoding a message: metric 'a' is there twice");
}

TEST_CASE("a report with more metrics than are read back is not sent") {
  Report report;
  for (std::size_t i = 0; i < max_metrics; ++i) report.metrics.set(std::to_string(i), 0.0);
  CHECK(decode<WorkerMessage>(payload_of(report)) == WorkerMessage{report});
  report.metrics.set("one more", 0.0);
  CHECK(
      thrown_error([&] { (void)encode(report); }) ==
      "invalid_report: sending a report: it has 4097 metrics, more than 4096; report fewer, or write them to a file of "
      "your own");
}

TEST_CASE("more metrics than a report may have are refused before the first is read") {
  Bytes payload = forged(1, {});
  payload.resize(payload.size() + 44);
  payload.push_back(std::byte{1});  // no checkpoint
  for (auto const byte : {1, 16, 0, 0, 0, 0, 0, 0}) payload.push_back(static_cast<std::byte>(byte));
  payload.resize(payload.size() + 5000);
  CHECK(refusal(payload) == "bad_message: decoding a message: it has 4097 metrics");
}

TEST_CASE("a message larger than a frame is not sent, and the message says where large things go") {
  Warning const fits{Rank{0}, std::string(max_frame_bytes - 23, 'x')};
  CHECK(encode(fits).size() == frame_header_bytes + max_frame_bytes);
  CHECK(decode<WorkerMessage>(payload_of(fits)) == WorkerMessage{fits});
  Warning const larger{Rank{0}, std::string(max_frame_bytes - 22, 'x')};
  CHECK(thrown_error([&] { (void)encode(larger); }) ==
        "bad_message: encoding a message: it takes 16777217 bytes, more than 16777216; put what is large into a "
        "checkpoint's files");
}

TEST_CASE("a payload larger than a frame is refused") {
  CHECK(refusal(Bytes(max_frame_bytes + 1)) == "bad_message: decoding a message: 16777217 bytes are too many");
}
