// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/detail/control_frames.hpp>
#include <raytrain/message/codec.hpp>
#include <raytrain/message/frame.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto heartbeat_frame() -> Bytes { return Bytes(frame_header_bytes); }

RAYTRAIN_INLINE auto goodbye_frame() -> Bytes {
  Bytes frame(frame_header_bytes + 1, goodbye_byte);
  write_frame_header(frame, 1);
  return frame;
}

RAYTRAIN_INLINE auto ControlFrames::next() -> std::optional<ControlItem> {
  auto const payload = decoder_.next();
  if (!payload) return std::nullopt;
  if (payload->empty()) return Heartbeat{};
  if (payload->size() == 1 && payload->front() == goodbye_byte) return Goodbye{};
  return decode(*payload);
}

}  // namespace raytrain::detail
