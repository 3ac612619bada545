// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include <raytrain/core/bytes.hpp>
#include <raytrain/message/codec.hpp>
#include <raytrain/message/frame.hpp>

namespace raytrain::detail {

/// The other end is there. A frame without payload.
struct Heartbeat {};

/// The other end will say nothing more. A frame with a payload of one byte, which no message has.
struct Goodbye {};

inline constexpr std::byte goodbye_byte{0xFF};

[[nodiscard]] auto heartbeat_frame() -> Bytes;

[[nodiscard]] auto goodbye_frame() -> Bytes;

/// Cuts a connection's bytes, which come in chunks of any size, into what they mean. `M` is what the other end says.
///
/// Errors: `bad_message`, from `feed` as from `next`, after which there is nothing more.
template <class M>
class ControlFrames {
 public:
  /// What comes over a connection after the handshake.
  using Item = std::variant<Heartbeat, Goodbye, M>;

  /// Call `next` until it has nothing left before feeding more.
  void feed(BytesView chunk) { decoder_.feed(chunk); }

  [[nodiscard]] auto next() -> std::optional<Item> {
    auto const payload = decoder_.next();
    if (!payload) return std::nullopt;
    if (payload->empty()) return Heartbeat{};
    if (payload->size() == 1 && payload->front() == goodbye_byte) return Goodbye{};
    return decode<M>(*payload);
  }

 private:
  FrameDecoder decoder_;
};

// Why a connection has ended, in words that follow "the connection". `whose` process is at its other end: "its" or "the
// controller's".

[[nodiscard]] auto without_goodbye(std::string_view whose) -> std::string;

[[nodiscard]] auto silent_for(std::chrono::milliseconds limit, std::string_view whose) -> std::string;

[[nodiscard]] auto suspended_for(std::chrono::milliseconds limit) -> std::string;

/// Describes the exception that is being handled.
[[nodiscard]] auto broken_by_exception(std::string_view whose) -> std::string;

/// Describes the exception that is being handled, before the other end has proved that it is of this run.
[[nodiscard]] auto handshake_broken_by_exception() -> std::string;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/detail/control_frames-inl.hpp>
#endif
