// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <raytrain/core/identifiers.hpp>

namespace raytrain {

/// The folder of a checkpoint that holds what is one rank's own, such as "rank_0003".
[[nodiscard]] auto rank_folder_name(Rank rank) -> std::string;

namespace detail {

/// The rank in whose folder a file lies, which its name then loses. Nothing where it lies in no such folder.
[[nodiscard]] auto take_rank_folder(std::string_view& name) -> std::optional<Rank>;

}  // namespace detail

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/checkpoint/rank_folder-inl.hpp>
#endif
