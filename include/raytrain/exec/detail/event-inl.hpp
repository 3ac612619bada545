// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <system_error>
#include <utility>

#include <asio/associated_cancellation_slot.hpp>
#include <asio/async_result.hpp>
#include <asio/awaitable.hpp>
#include <asio/error.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>

#include <raytrain/core/inline.hpp>
#include <raytrain/exec/detail/event.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE void Event::throw_if_cancelled(asio::cancellation_state const& state) {
  if (state.cancelled() != asio::cancellation_type::none) {
    throw std::system_error{std::error_code{asio::error::operation_aborted}};
  }
}

RAYTRAIN_INLINE void Event::resume_later(std::error_code error) const {
  asio::post(context_, [sleeper = sleeper_, error] {
    if (auto const resume = std::exchange(sleeper->resume, nullptr)) resume(error);
  });
}

}  // namespace raytrain::detail
