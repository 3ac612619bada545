// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include <raytrain/core/file_descriptor.hpp>

namespace raytrain {

/// A text file to which whole lines are appended, each handed to the system at once.
///
/// What is written survives the end of the process however it comes, not that of the machine.
class AppendFile {
 public:
  AppendFile() = default;

  /// Completes a last line that a crash cut short, so that the next one starts on its own.
  ///
  /// Errors: `io`.
  explicit AppendFile(std::filesystem::path path);

  [[nodiscard]] auto is_open() const noexcept -> bool { return file_.is_open(); }

  /// Closes the file. Errors: `io` when it was removed, replaced or cut short since it was opened, with lines in it.
  void finish();

  [[nodiscard]] auto empty() const noexcept -> bool { return size_bytes_ == 0; }

  /// Empties the file, where the system lets it.
  void clear() noexcept;

  /// Errors: `io`; the line may then be incomplete, and the next one starts on its own.
  void write_line(std::string_view line);

 private:
  [[noreturn]] void refuse(std::string_view what) const;

  std::filesystem::path path_;
  FileDescriptor file_;
  std::size_t size_bytes_ = 0;
  bool is_cut_ = false;  ///< The last line was written in part.
  std::string buffer_;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/append_file-inl.hpp>
#endif
