// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace raytrain::detail {

/// Lines of cells, as many in each, one below the other: the first of each line is flush left where `labels` is set,
/// and all others flush right. Control characters are shown as '?'.
[[nodiscard]] auto text_table(std::vector<std::vector<std::string>> lines, bool labels) -> std::string;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/detail/text_table-inl.hpp>
#endif
