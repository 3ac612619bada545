// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <raytrain/core/bytes.hpp>
#include <raytrain/message/frame.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

/// Raised whenever the bytes of a message change their meaning. Both sides must have the same.
inline constexpr std::uint8_t protocol_version = 2;

/// The message as a frame, for sockets. Its payload: protocol version, index in `Message`, each one byte, then the
/// fields; numbers little end first, sizes as 64 bits.
///
/// Errors: `bad_message` for one larger than `max_frame_bytes`, `invalid_report` for more than `max_metrics` metrics.
[[nodiscard]] auto encode(Message const& message) -> Bytes;

/// The message that a frame's payload holds, of which nothing is taken for granted.
///
/// Errors: `bad_message`.
/// Cost: allocates at most a few times as much as the payload is long.
[[nodiscard]] auto decode(BytesView payload) -> Message;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/message/codec-inl.hpp>
#endif
