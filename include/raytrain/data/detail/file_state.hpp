// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

namespace raytrain::detail {

/// How large a file was, and when it was changed last, so that it can be told whether it has been changed since.
class FileState {
 public:
  /// Errors: `not_found` where there is no file, listing its neighbours; `io`.
  explicit FileState(std::filesystem::path path);

  [[nodiscard]] auto path() const noexcept -> std::filesystem::path const& { return path_; }
  [[nodiscard]] auto size_bytes() const noexcept -> std::uint64_t { return size_bytes_; }

  /// In seconds since 1970: "1700000000.123456789".
  [[nodiscard]] auto time_text() const -> std::string;

  /// Errors: as above; `io` where it is another file now, or was changed.
  void check() const;

 private:
  std::filesystem::path path_;
  std::uint64_t device_ = 0;
  std::uint64_t number_ = 0;  ///< On that device.
  std::uint64_t size_bytes_ = 0;
  std::int64_t seconds_ = 0;
  std::int64_t nanoseconds_ = 0;
};

/// Calls `read`, which reads the file.
///
/// Errors: as `read`; `io` where the file was changed meanwhile, whatever `read` has made of it.
void read_unchanged(std::filesystem::path const& path, std::function<void()> const& read);

/// "3 files of 1234 bytes, whose paths, order, sizes and times give 0123456789abcdef". Links are followed.
[[nodiscard]] auto files_text(std::span<FileState const> files) -> std::string;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/detail/file_state-inl.hpp>
#endif
