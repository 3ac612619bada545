// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include <raytrain/core/error.hpp>

namespace raytrain::detail {

[[nodiscard]] auto io_remedy(int error_number) -> std::string;

/// The error for a system call on `path` that failed and left `error_number` in errno.
[[nodiscard]] auto io_error(std::string const& attempted, std::filesystem::path const& path, int error_number) -> Error;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/checkpoint/detail/io_error-inl.hpp>
#endif
