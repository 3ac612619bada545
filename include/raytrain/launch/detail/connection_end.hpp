// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace raytrain::detail {

// Why a connection has ended, in words that follow "the connection". `whose` process is at its other end: "its" or "the
// controller's".

[[nodiscard]] auto without_goodbye(std::string_view whose) -> std::string;

[[nodiscard]] auto silent_for(std::chrono::milliseconds limit, std::string_view whose) -> std::string;

/// Describes the exception that is being handled.
[[nodiscard]] auto broken_by_exception(std::string_view whose) -> std::string;

/// Describes the exception that is being handled, before the other end has proved that it is of this run.
[[nodiscard]] auto handshake_broken_by_exception() -> std::string;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/detail/connection_end-inl.hpp>
#endif
