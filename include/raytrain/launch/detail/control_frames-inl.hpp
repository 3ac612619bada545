// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <exception>
#include <string>
#include <string_view>
#include <system_error>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
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

RAYTRAIN_INLINE auto without_goodbye(std::string_view whose) -> std::string {
  return "ended without a goodbye: " + std::string{whose} + " process was killed, crashed or exited";
}

RAYTRAIN_INLINE auto suspended_for(std::chrono::milliseconds limit) -> std::string {
  return "was given up: its process is stopped by a signal (SIGSTOP), and has said nothing for " +
         std::to_string(limit.count()) + " ms";
}

RAYTRAIN_INLINE auto silent_for(std::chrono::milliseconds limit, std::string_view whose) -> std::string {
  return "brought nothing for more than " + std::to_string(limit.count()) + " ms: " + std::string{whose} +
         " process stands still, or its host is cut off";
}

RAYTRAIN_INLINE auto broken_by_exception(std::string_view whose) -> std::string {
  try {
    throw;
  } catch (std::system_error const& error) {
    return "broke (" + error.code().message() + "): " + std::string{whose} +
           " process was killed or crashed, or its host is cut off";
  } catch (Error const& error) {
    return "brought what is no message: " + error.happened();
  } catch (std::exception const& error) {
    return std::string{"cannot be served: "} + error.what();
  } catch (...) {
    return "cannot be served: an exception of unknown type";
  }
}

RAYTRAIN_INLINE auto handshake_broken_by_exception() -> std::string {
  try {
    throw;
  } catch (std::system_error const& error) {
    return "left before the end of the handshake (" + error.code().message() + ")";
  } catch (std::exception const& error) {
    return std::string{"failed in the handshake: "} + error.what();
  } catch (...) {
    return "failed in the handshake: an exception of unknown type";
  }
}

}  // namespace raytrain::detail
