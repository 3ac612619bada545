// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <raytrain/core/bytes.hpp>
#include <raytrain/message/frame.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

/// Raised whenever the bytes of a message change their meaning. Both sides must have the same.
inline constexpr std::uint8_t protocol_version = 12;

namespace detail {

/// The kinds of `ControllerMessage` count from here, so that a frame of the wrong direction is none of its reader's.
inline constexpr std::uint8_t first_controller_kind = 64;

}  // namespace detail

/// The message as a frame, for sockets. Its payload: protocol version and kind, each one byte, the attempt, then the
/// fields; numbers little end first, sizes as 64 bits. The kind is the index in `WorkerMessage`, or 64 more than that
/// in `ControllerMessage`.
///
/// Errors: `bad_message` for one larger than `max_frame_bytes`, `invalid_report` for more than `max_metrics` metrics.
[[nodiscard]] auto encode(WorkerMessage const& message) -> Bytes;
[[nodiscard]] auto encode(ControllerMessage const& message) -> Bytes;

/// The message that a frame's payload holds, of which nothing is taken for granted. `M` is the direction that is read.
///
/// Errors: `bad_message`, also for a message of the other direction.
/// Cost: allocates at most a few times as much as the payload is long.
template <class M>
[[nodiscard]] auto decode(BytesView payload) -> M;

template <>
[[nodiscard]] auto decode<WorkerMessage>(BytesView payload) -> WorkerMessage;
template <>
[[nodiscard]] auto decode<ControllerMessage>(BytesView payload) -> ControllerMessage;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/message/codec-inl.hpp>
#endif
