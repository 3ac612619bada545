// SPDX-License-Identifier: Apache-2.0
#include <raytrain/message/frame.hpp>

#include <algorithm>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/testing/random_seed.hpp>

#include "../support/thrown_error.hpp"

using namespace raytrain;
using raytrain::testing::thrown_error;

namespace {

void append_frame(Bytes& stream, BytesView payload) {
  Bytes frame(frame_header_bytes);
  detail::write_frame_header(frame, static_cast<std::uint32_t>(payload.size()));
  stream.insert(stream.end(), frame.begin(), frame.end());
  stream.insert(stream.end(), payload.begin(), payload.end());
}

auto header(std::uint32_t size_bytes) -> Bytes {
  Bytes bytes(frame_header_bytes);
  detail::write_frame_header(bytes, size_bytes);
  return bytes;
}

void take_all(FrameDecoder& decoder, std::vector<Bytes>& payloads) {
  while (auto payload = decoder.next()) payloads.push_back(std::move(*payload));
}

}  // namespace

TEST_CASE("however a stream is cut into chunks, its payloads come out whole and in order") {
  std::mt19937_64 random{raytrain::testing::random_seed()};
  for (int round = 0; round < 200; ++round) {
    std::vector<Bytes> sent;
    Bytes stream;
    for (std::size_t i = 0; i < 1 + random() % 8; ++i) {
      sent.emplace_back(random() % 3 == 0 ? 0 : random() % 300, static_cast<std::byte>(random()));
      append_frame(stream, sent.back());
    }
    std::vector<Bytes> received;
    FrameDecoder decoder;
    auto const longest = 1 + random() % stream.size();
    for (BytesView rest = stream; !rest.empty();) {
      auto const length = std::min<std::size_t>(rest.size(), 1 + random() % longest);
      decoder.feed(rest.first(length));
      rest = rest.subspan(length);
      take_all(decoder, received);
    }
    REQUIRE(received == sent);
    REQUIRE(decoder.unread_bytes() == 0);
  }
}

TEST_CASE("chunks may be fed before payloads are taken") {
  Bytes stream;
  append_frame(stream, bytes_of("one"));
  append_frame(stream, bytes_of("two"));
  FrameDecoder decoder;
  for (auto const& byte : stream) decoder.feed(BytesView{&byte, 1});
  CHECK(text_of(decoder.next().value()) == "one");
  decoder.feed({});
  CHECK(text_of(decoder.next().value()) == "two");
  CHECK_FALSE(decoder.next().has_value());
}

TEST_CASE("a frame that is not complete gives nothing, and its bytes are counted") {
  Bytes stream;
  append_frame(stream, bytes_of("one"));
  FrameDecoder decoder;
  CHECK(decoder.unread_bytes() == 0);
  decoder.feed(BytesView{stream}.first(6));
  CHECK_FALSE(decoder.next().has_value());
  CHECK(decoder.unread_bytes() == 6);
}

TEST_CASE("a length above the limit is refused as soon as its four bytes are there, and ever after") {
  auto const oversize = header(max_frame_bytes + 1);
  FrameDecoder decoder;
  decoder.feed(BytesView{oversize}.first(3));
  auto const expected =
      "bad_message: receiving a message: its length is 16777217 bytes, more than 16777216; what is at the other end is "
      "not this version of raytrain";
  CHECK(thrown_error([&] { decoder.feed(BytesView{oversize}.subspan(3)); }) == expected);
  CHECK(thrown_error([&] { decoder.feed(oversize); }) == expected);
  CHECK(thrown_error([&] { (void)decoder.next(); }) == expected);
}

TEST_CASE("the largest length is accepted") {
  FrameDecoder decoder;
  decoder.feed(header(max_frame_bytes));
  CHECK_FALSE(decoder.next().has_value());
}

TEST_CASE("a length above the limit behind a good frame is refused after that frame was given") {
  Bytes stream;
  append_frame(stream, bytes_of("good"));
  auto const oversize = header(0xFFFFFFFFU);
  stream.insert(stream.end(), oversize.begin(), oversize.end());
  FrameDecoder decoder;
  decoder.feed(stream);
  CHECK(text_of(decoder.next().value()) == "good");
  CHECK(thrown_error([&] { (void)decoder.next(); }).find("its length is 4294967295 bytes") != std::string::npos);
}
