// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/file_descriptor.hpp>

namespace raytrain::detail {

/// The first `bytes` of an open file where the system keeps them, without a copy; they outlive the file's name. None
/// where its file system does not do so. Whoever shortens the file meanwhile ends the process by SIGBUS.
[[nodiscard]] auto map_file(FileDescriptor const& file, std::size_t bytes) -> std::optional<SharedBytes>;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/core/mapped_file-inl.hpp>
#endif
