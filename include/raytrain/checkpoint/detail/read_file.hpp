// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/file_descriptor.hpp>

namespace raytrain::detail {

/// What lies at a path, where links lead; `not_found` when nothing does.
///
/// Errors: `io` when the system cannot say.
[[nodiscard]] auto type_of(std::filesystem::path const& path) -> std::filesystem::file_type;

/// The same, but of a link the link itself.
[[nodiscard]] auto link_type_of(std::filesystem::path const& path) -> std::filesystem::file_type;

/// A file opened for reading.
///
/// Errors: every function throws `io`.
class InputFile {
 public:
  explicit InputFile(std::filesystem::path path);

  [[nodiscard]] auto size_bytes() const -> std::uint64_t { return static_cast<std::uint64_t>(status().st_size); }

  /// Fills `buffer` from where the last call ended; returns fewer bytes only at the file's end.
  [[nodiscard]] auto read(std::span<std::byte> buffer) -> std::size_t;

  /// The whole content, as `map_file` gives it.
  [[nodiscard]] auto map() const -> std::optional<SharedBytes>;

 private:
  [[nodiscard]] auto status() const -> struct ::stat;

  std::filesystem::path path_;
  FileDescriptor file_;
};

/// Errors: `io`; `invalid_data` for a file of more than `most_bytes`.
[[nodiscard]] auto read_file(std::filesystem::path const& path,
                             std::uint64_t most_bytes = std::numeric_limits<std::uint64_t>::max()) -> Bytes;

/// XXH3-128 of a file's content, which is never in memory as a whole.
[[nodiscard]] auto xxh3_of_file(std::filesystem::path const& path) -> std::string;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/checkpoint/detail/read_file-inl.hpp>
#endif
