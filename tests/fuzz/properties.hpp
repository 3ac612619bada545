// SPDX-License-Identifier: Apache-2.0
// What must hold for any bytes at all; the fuzz targets and the mutation test try to break it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/message/codec.hpp>
#include <raytrain/message/json.hpp>

namespace raytrain::testing {

inline void require(bool holds, char const* sentence) {
  if (!holds) throw std::logic_error{sentence};
}

/// The result of `call`, or nothing if it refuses with `code`; any other exception is a finding.
template <class Call>
[[nodiscard]] auto unless_refused(Errc code, Call&& call) -> std::optional<decltype(call())> {
  try {
    return call();
  } catch (Error const& error) {
    require(error.code() == code, "what is refused is refused with the documented code");
    require(!error.happened().empty(), "a refusal says what happened");
    return std::nullopt;
  }
}

inline auto payload_of(Bytes const& frame) -> BytesView { return BytesView{frame}.subspan(frame_header_bytes); }

/// True if the payload is a message of the direction.
template <class M>
auto check_decode_of(BytesView payload) -> bool {
  auto const message = unless_refused(Errc::bad_message, [&] { return decode<M>(payload); });
  if (!message) return false;
  auto const frame = encode(*message);
  // Compared as bytes, because a NaN does not equal itself.
  require(encode(decode<M>(payload_of(frame))) == frame, "a decoded message is the same after another round");
  return true;
}

/// True if the payload is a message.
inline auto check_decode(BytesView payload) -> bool {
  auto const is_of_worker = check_decode_of<WorkerMessage>(payload);
  auto const is_of_controller = check_decode_of<ControllerMessage>(payload);
  require(!(is_of_worker && is_of_controller), "a message has one direction");
  return is_of_worker || is_of_controller;
}

/// The payloads in a stream that comes in chunks of `chunk_bytes`, and whether it was refused.
inline auto payloads_in(BytesView stream, std::size_t chunk_bytes) -> std::pair<std::vector<Bytes>, bool> {
  std::vector<Bytes> payloads;
  FrameDecoder decoder;
  auto const refused = !unless_refused(Errc::bad_message, [&] {
    for (auto rest = stream; !rest.empty(); rest = rest.subspan(std::min(chunk_bytes, rest.size()))) {
      decoder.feed(rest.first(std::min(chunk_bytes, rest.size())));
      while (auto payload = decoder.next()) payloads.push_back(std::move(*payload));
    }
    return true;
  });
  if (!refused) {
    std::size_t taken = decoder.unread_bytes();
    for (auto const& payload : payloads) taken += frame_header_bytes + payload.size();
    require(taken == stream.size(), "every byte of a stream is in a payload, in a header, or waits");
  }
  return {std::move(payloads), refused};
}

inline void check_frame_decoder(BytesView stream, std::size_t chunk_bytes) {
  auto const chunked = payloads_in(stream, chunk_bytes);
  require(chunked == payloads_in(stream, stream.size()), "chunks do not change what is in a stream");
  for (auto const& payload : chunked.first) (void)check_decode(payload);
}

/// One field of each kind.
struct JsonSample {
  bool flag{};
  std::int32_t number{};
  double real{};
  std::string text;
  std::optional<std::uint64_t> maybe;
  std::vector<std::map<std::string, std::int8_t>> maps;
  Metrics metrics;
  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(flag), CEREAL_NVP(number), CEREAL_NVP(real), CEREAL_NVP(text), CEREAL_NVP(maybe), CEREAL_NVP(maps),
      CEREAL_NVP(metrics));
  }
};

/// True if the text is metrics or a `JsonSample`.
inline auto check_json(std::string_view text) -> bool {
  auto const metrics = unless_refused(Errc::invalid_data, [&] { return metrics_from_json(text); });
  if (metrics) {
    auto const line = to_json(*metrics);
    require(line.find('\n') == std::string::npos, "metrics are one line");
    auto const again = metrics_from_json(line);
    require(to_json(again) == line, "metrics are the same after another round");
    auto const same_type = [](auto const& a, auto const& b) { return a.value.index() == b.value.index(); };
    require(std::ranges::equal(*metrics, again, same_type), "metrics keep their types");
  }
  auto const sample = unless_refused(Errc::invalid_data, [&] { return read_json<JsonSample>(text); });
  if (sample) {
    auto const written = write_json(*sample);
    require(write_json(read_json<JsonSample>(written)) == written, "a struct is the same after another round");
  }
  return metrics || sample;
}

}  // namespace raytrain::testing
