// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include <raytrain/core/bytes.hpp>

/// Files of a program's own, beside those of a run.
namespace raytrain {

/// The content of a file, without a copy where the system can. Who shortens the file meanwhile ends the process by
/// SIGBUS.
///
/// Errors: `io`, for what is no regular file, too.
[[nodiscard]] auto view_whole_file(std::filesystem::path const& file) -> SharedBytes;

/// Puts bytes in place of a file's content, or into a new one: whatever happens on the way, a reader finds the old or
/// the new one. One writes at a time. Of a link it is the file that the link names.
///
/// Errors: `io`, for what is no regular file, too, as a device, which stays.
void replace_whole_file(std::filesystem::path const& file, BytesView content);

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/checkpoint/whole_file-inl.hpp>
#endif
