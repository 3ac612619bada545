// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/detail/control_frames.hpp>
#include <raytrain/message/frame.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto heartbeat_frame() -> Bytes { return Bytes(frame_header_bytes); }

RAYTRAIN_INLINE auto goodbye_frame() -> Bytes {
  Bytes frame(frame_header_bytes + 1, goodbye_byte);
  write_frame_header(frame, 1);
  return frame;
}

}  // namespace raytrain::detail
