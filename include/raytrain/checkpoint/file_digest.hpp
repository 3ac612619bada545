// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace raytrain {

/// XXH3-128 of what a file holds, 32 hexadecimal digits.
///
/// Errors: `io`.
[[nodiscard]] auto file_digest(std::filesystem::path const& path) -> std::string;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/checkpoint/file_digest-inl.hpp>
#endif
