// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/Exception.h>

#include <string>
#include <string_view>
#include <utility>

#include <raytrain/backend/torch/gpu_advice.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/launch/gpu_driver.hpp>

namespace raytrain::detail {

/// Calls LibTorch. What it throws becomes an `Error` with the first line of its message, without the stack.
///
/// Errors: `backend`; or the error of `out_of_gpu_memory`, whose remedy replaces `remedy`.
template <class F>
auto torch_call(std::string_view attempted, F&& function, std::string remedy = {}) -> decltype(auto) {
  try {
    return std::forward<F>(function)();
  } catch (c10::OutOfMemoryError const& error) {
    throw out_of_gpu_memory(std::string{attempted}, error.what_without_backtrace(), gpu_memory());
  } catch (c10::Error const& error) {
    std::string text{error.what_without_backtrace()};
    throw Error{Errc::backend, std::string{attempted}, text.substr(0, text.find('\n')), std::move(remedy)};
  }
}

}  // namespace raytrain::detail
