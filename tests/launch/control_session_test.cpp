// SPDX-License-Identifier: Apache-2.0
#include <raytrain/launch/detail/control_session.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

#include <doctest/doctest.h>

#include <raytrain/core/bytes.hpp>
#include <raytrain/launch/detail/handshake.hpp>
#include <raytrain/launch/run_token.hpp>
#include <raytrain/message/codec.hpp>
#include <raytrain/testing/random_seed.hpp>

#include "../fuzz/session_properties.hpp"
#include "../message/sample_messages.hpp"
#include "../support/thrown_error.hpp"

using namespace raytrain;
using namespace raytrain::testing;

TEST_CASE("a token is random, passes as text, and is the same only when every byte is") {
  auto const token = RunToken::random();
  CHECK(token.to_hex().size() == 32);
  CHECK(RunToken::from_hex(token.to_hex()) == token);
  CHECK(RunToken::random() != token);
  for (std::size_t i = 0; i < 32; ++i) {
    auto text = token.to_hex();
    text[i] = text[i] == '0' ? '1' : '0';
    CHECK(RunToken::from_hex(text) != token);
  }
}

TEST_CASE("a text that is no token is refused by a message that does not hold it") {
  CHECK(thrown_error([] { return RunToken::from_hex("abc"); }) ==
        "invalid_config: reading a run's token: it must have 32 characters (got 3); pass it on as RunToken::to_hex "
        "gave it");
  std::string const text = std::string(30, 'a') + "aG";
  auto const error = thrown_error([&] { return RunToken::from_hex(text); });
  check_contains(error, "byte 15 is not two of 0123456789abcdef");
  CHECK(error.find(text) == std::string::npos);
}

TEST_CASE("a session greets, brings every message and a goodbye, in chunks of any size") {
  auto const seed = random_seed();
  std::mt19937_64 random{seed};
  auto const stream = good_session();
  for (int round = 0; round < 200; ++round) {
    auto const events = events_of(stream, [&] { return 1 + random() % (1U << (random() % 12)); });
    auto const expected = 4 + worker_messages().size();
    REQUIRE(events.size() == expected);
    CHECK(events[0] == "challenge");
    CHECK(events[1] == "hello 2");
    CHECK(events[2] == "heartbeat");
    CHECK(events.back() == "goodbye");
  }
}

TEST_CASE("a handshake with any one byte changed is refused without an answer") {
  auto const stream = good_session();
  for (std::size_t i = 0; i < detail::ControlSession::max_handshake_bytes; ++i) {
    CAPTURE(i);
    auto changed = stream;
    changed[i] ^= std::byte{0x40};
    auto const events = events_of(changed, [] { return std::size_t{7}; });
    auto const in_magic = i % detail::handshake_bytes < 8;
    REQUIRE(events.size() == (i < 8 ? 1 : 2));
    CHECK(events.back() == (in_magic ? "refused: sent something else than raytrain's handshake"
                                     : "refused: does not know the run's token"));
  }
}

TEST_CASE("a client that knows the token is answered why it is none of the ranks") {
  detail::Nonce const nonce{};
  auto const last_event = [](Bytes const& stream) { return events_of(stream, [] { return std::size_t{7}; }).back(); };
  CHECK(last_event(handshake_of(detail::make_handshake(nonce, {.number = 2, .version = 99}))) ==
        "refused and answered: has protocol version 99, and this side has 12");
  for (std::uint32_t const rank : {0U, 4U, 4'000'000'000U}) {
    CHECK(last_event(handshake_of(detail::make_hello(nonce, Rank{rank}))) ==
          "refused and answered: says that it is rank " + std::to_string(rank) + ", and ranks 1 to 3 are expected");
  }
  CHECK(last_event(handshake_of(detail::make_handshake(nonce, {.number = 2, .version = 99}), RunToken::random())) ==
        "refused: does not know the run's token");
}

TEST_CASE("what proves the token on one connection proves nothing on another, nor for another rank, nor sent back") {
  auto const token = fuzzed_token();
  auto const nonce = detail::random_nonce();
  CHECK(nonce != detail::random_nonce());
  detail::HandshakeBegin const begin{detail::make_hello(nonce, Rank{2}),
                                     detail::make_challenge(detail::random_nonce())};
  auto const proof = begin.proof(token);
  auto const answer = begin.answer(token, detail::HandshakeStatus::accepted);
  auto const view = [](detail::Handshake const& handshake) { return detail::HandshakeView{handshake}; };
  CHECK(begin.is_proof(token, view(proof)));
  CHECK(begin.is_answer(token, view(answer)));
  CHECK_FALSE(begin.is_answer(token, view(proof)));
  CHECK_FALSE(begin.is_proof(token, view(answer)));
  CHECK_FALSE(begin.is_proof(RunToken::random(), view(proof)));

  auto other_challenge = begin;
  other_challenge.challenge = detail::make_challenge(detail::random_nonce());
  CHECK_FALSE(other_challenge.is_proof(token, view(proof)));
  CHECK_FALSE(other_challenge.is_answer(token, view(answer)));
  auto other_rank = begin;
  other_rank.hello = detail::make_hello(nonce, Rank{3});
  CHECK_FALSE(other_rank.is_proof(token, view(proof)));
  auto other_client = begin;
  other_client.hello = detail::make_hello(detail::random_nonce(), Rank{2});
  CHECK_FALSE(other_client.is_answer(token, view(answer)));
}

TEST_CASE("before the token is proved a session asks for no byte beyond the handshake") {
  detail::ControlSession session{{fuzzed_token(), Rank{0}, WorldSize{4}}, fuzzed_nonce};
  auto const stream = good_session();
  CHECK(session.wanted_bytes() == detail::handshake_bytes);
  session.feed(BytesView{stream}.first(30));
  CHECK_FALSE(session.next().has_value());
  CHECK(session.wanted_bytes() == 2);
  CHECK(session.received_bytes() == 30);
  session.feed(BytesView{stream}.subspan(30, 2));
  CHECK(session.next().has_value());
  CHECK_FALSE(session.next().has_value());
  CHECK(session.wanted_bytes() == detail::handshake_bytes);
  session.feed(BytesView{stream}.subspan(32, 32));
  CHECK(session.next().has_value());
  CHECK(session.wanted_bytes() > 1000);
}

TEST_CASE("what follows a goodbye is not looked at") {
  auto stream = good_session();
  stream.resize(stream.size() + 100, std::byte{0xFF});
  auto const events = events_of(stream, [] { return std::size_t{1000000}; });
  CHECK(events.back() == "goodbye");
}
