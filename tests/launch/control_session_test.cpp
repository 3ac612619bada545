// SPDX-License-Identifier: Apache-2.0
#include <raytrain/launch/detail/control_session.hpp>

#include <algorithm>
#include <cstddef>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/core/bytes.hpp>
#include <raytrain/launch/detail/handshake.hpp>
#include <raytrain/launch/run_token.hpp>
#include <raytrain/message/codec.hpp>

#include "../fuzz/session_properties.hpp"
#include "../message/sample_messages.hpp"
#include "../support/random_seed.hpp"
#include "../support/thrown_error.hpp"

using namespace raytrain;
using namespace raytrain::testing;

TEST_CASE("a token is random, passes as text, and is the same only when every byte is") {
  auto const token = RunToken::random();
  CHECK(token.to_hex().size() == 64);
  CHECK(RunToken::from_hex(token.to_hex()) == token);
  CHECK(RunToken::random() != token);
  CHECK_FALSE(RunToken::same(token.client_half(), token.server_half()));
  for (std::size_t i = 0; i < 64; ++i) {
    auto text = token.to_hex();
    text[i] = text[i] == '0' ? '1' : '0';
    CHECK(RunToken::from_hex(text) != token);
  }
}

TEST_CASE("a text that is no token is refused by a message that does not hold it") {
  CHECK(thrown_error([] { return RunToken::from_hex("abc"); }) ==
        "invalid_config: reading a run's token: it must have 64 characters (got 3); pass it on as RunToken::to_hex "
        "gave it");
  std::string const text = std::string(62, 'a') + "aG";
  auto const error = thrown_error([&] { return RunToken::from_hex(text); });
  check_contains(error, "byte 31 is not two of 0123456789abcdef");
  CHECK(error.find(text) == std::string::npos);
}

TEST_CASE("a session greets, brings every message and a goodbye, in chunks of any size") {
  auto const seed = random_seed();
  std::mt19937_64 random{seed};
  auto const stream = good_session();
  for (int round = 0; round < 200; ++round) {
    auto const events = events_of(stream, [&] { return 1 + random() % (1U << (random() % 12)); });
    auto const expected = 3 + sample_messages().size();
    REQUIRE(events.size() == expected);
    CHECK(events.front() == "hello 2");
    CHECK(events[1] == "heartbeat");
    CHECK(events.back() == "goodbye");
  }
}

TEST_CASE("a handshake with any one byte changed is refused, and only who knows the token is answered") {
  auto const stream = good_session();
  for (std::size_t i = 0; i < detail::handshake_bytes; ++i) {
    auto changed = stream;
    changed[i] ^= std::byte{0x40};
    auto const events = events_of(changed, [] { return std::size_t{7}; });
    REQUIRE(events.size() == 1);
    auto const expected = i < 8    ? "refused: sent something else than raytrain's handshake"
                          : i < 24 ? "refused: sent a wrong token"
                          : i < 28 ? "refused and answered: has protocol version"
                                   : "refused and answered: says that it is rank";
    CHECK(events.front().starts_with(expected));
  }
}

TEST_CASE("before the token is shown a session asks for no byte beyond the handshake") {
  detail::ControlSession session{fuzzed_token(), WorldSize{4}};
  auto const stream = good_session();
  CHECK(session.wanted_bytes() == detail::handshake_bytes);
  session.feed(BytesView{stream}.first(30));
  CHECK_FALSE(session.next().has_value());
  CHECK(session.wanted_bytes() == 2);
  CHECK(session.received_bytes() == 30);
  session.feed(BytesView{stream}.subspan(30, 2));
  CHECK(session.next().has_value());
  CHECK(session.wanted_bytes() > 1000);
}

TEST_CASE("what follows a goodbye is not looked at") {
  auto stream = good_session();
  stream.resize(stream.size() + 100, std::byte{0xFF});
  auto const events = events_of(stream, [] { return std::size_t{1000000}; });
  CHECK(events.back() == "goodbye");
}
