// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <variant>

#include <raytrain/core/bytes.hpp>
#include <raytrain/message/frame.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain::detail {

/// The other end is there. A frame without payload.
struct Heartbeat {};

/// The other end will say nothing more. A frame with a payload of one byte, which no message has.
struct Goodbye {};

inline constexpr std::byte goodbye_byte{0xFF};

[[nodiscard]] auto heartbeat_frame() -> Bytes;

[[nodiscard]] auto goodbye_frame() -> Bytes;

/// What comes over a connection after the handshake.
using ControlItem = std::variant<Heartbeat, Goodbye, Message>;

/// Cuts a connection's bytes, which come in chunks of any size, into what they mean.
///
/// Errors: `bad_message`, from `feed` as from `next`, after which there is nothing more.
class ControlFrames {
 public:
  /// Call `next` until it has nothing left before feeding more.
  void feed(BytesView chunk) { decoder_.feed(chunk); }

  [[nodiscard]] auto next() -> std::optional<ControlItem>;

 private:
  FrameDecoder decoder_;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/detail/control_frames-inl.hpp>
#endif
