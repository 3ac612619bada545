// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include <raytrain/collective/detail/agreement.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE void Agreement::break_off(Errc code, std::string why) {
  if (!is_usable()) return;
  code_ = code;
  since_ = std::move(why);
}

RAYTRAIN_INLINE void Agreement::end_by(Error const& error) {
  break_off(error.code(), error.happened());
  throw error;
}

}  // namespace raytrain::detail
