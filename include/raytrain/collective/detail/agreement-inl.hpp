// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include <raytrain/collective/detail/agreement.hpp>
#include <raytrain/collective/detail/call.hpp>
#include <raytrain/collective/detail/call_errors.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/rank.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE void Agreement::break_off(Errc code, std::string why) {
  code_ = code;
  since_ = std::move(why);
}

RAYTRAIN_INLINE void Agreement::end_by(Error const& error) {
  break_off(error.code(), error.happened());
  throw error;
}

RAYTRAIN_INLINE void Agreement::check_usable(Call const& call, Rank rank) const {
  if (since_.empty()) return;
  throw unusable_error(code_, since_, rank, call);
}

}  // namespace raytrain::detail
