// SPDX-License-Identifier: Apache-2.0
// Good inputs, from which fuzzing starts.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "../message/sample_messages.hpp"
#include "properties.hpp"
#include "session_properties.hpp"

namespace raytrain::testing {

/// Messages of both directions.
[[nodiscard]] inline auto sample_frames() -> std::vector<Bytes> {
  std::vector<Bytes> frames;
  for (auto const& message : worker_messages()) frames.push_back(encode(message));
  for (auto const& message : controller_messages()) frames.push_back(encode(message));
  return frames;
}

[[nodiscard]] inline auto payload_seeds() -> std::vector<Bytes> {
  std::vector<Bytes> seeds;
  for (auto const& frame : sample_frames()) {
    auto const payload = payload_of(frame);
    seeds.emplace_back(payload.begin(), payload.end());
  }
  return seeds;
}

/// Each frame, and all of them behind one another.
[[nodiscard]] inline auto stream_seeds() -> std::vector<Bytes> {
  auto seeds = sample_frames();
  Bytes all;
  for (auto const& frame : seeds) all.insert(all.end(), frame.begin(), frame.end());
  seeds.push_back(std::move(all));
  return seeds;
}

/// A whole connection, first parts of one, and those that are refused with an answer.
[[nodiscard]] inline auto session_seeds() -> std::vector<Bytes> {
  auto const good = good_session();
  detail::Nonce const nonce{std::byte{3}};
  return {good,
          {good.begin(), good.begin() + detail::ControlSession::max_handshake_bytes + 60},
          {good.begin(), good.begin() + detail::handshake_bytes + 20},
          {good.begin(), good.begin() + 20},
          handshake_of(detail::make_hello(nonce, Rank{0})),
          handshake_of(detail::make_handshake(nonce, {.number = 2, .version = protocol_version + 1U}))};
}

[[nodiscard]] inline auto json_seeds() -> std::vector<Bytes> {
  Metrics const metrics{{"loss", 0.1},  {"nan", std::numeric_limits<double>::quiet_NaN()}, {"epoch", std::int64_t{-2}},
                        {"done", true}, {"text", "\n\"\\ \x01 \xC3\xB6 \xF0\x9F\x98\x80"}, {"\x7F", 1e300}};
  JsonSample const sample{true, -3, -0.0, "text", 18446744073709551615U, {{{"a", std::int8_t{1}}}, {}}, metrics};
  std::vector<Bytes> seeds;
  for (std::string const& text :
       {to_json(metrics), write_json(sample), std::string{R"({"a": "\u00f6\ud83d\ude00\/\b"})"}}) {
    auto const bytes = bytes_of(text);
    seeds.emplace_back(bytes.begin(), bytes.end());
  }
  return seeds;
}

}  // namespace raytrain::testing
