// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <exception>
#include <string>
#include <string_view>
#include <system_error>

#include <raytrain/core/error.hpp>

namespace raytrain::detail {

// Why a connection has ended, in words that follow "the connection". `whose` process is at its other end: "its" or "the
// controller's".

[[nodiscard]] inline auto without_goodbye(std::string_view whose) -> std::string {
  return "ended without a goodbye: " + std::string{whose} + " process was killed, crashed or exited";
}

[[nodiscard]] inline auto silent_for(std::chrono::milliseconds limit, std::string_view whose) -> std::string {
  return "brought nothing for more than " + std::to_string(limit.count()) + " ms: " + std::string{whose} +
         " process stands still, or its host is cut off";
}

/// Describes the exception that is being handled.
[[nodiscard]] inline auto broken_by_exception(std::string_view whose) -> std::string {
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

/// Describes the exception that is being handled, before the other end has proved that it is of this run.
[[nodiscard]] inline auto handshake_broken_by_exception() -> std::string {
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
