// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/message/detail/report_visitors.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE void MetricsReader::refuse(std::string_view name, std::string const& expected) {
  throw Error{Errc::invalid_report, "metric '" + std::string{name} + "'", "must be " + expected};
}

}  // namespace raytrain::detail
