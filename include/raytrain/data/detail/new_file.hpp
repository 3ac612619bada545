// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include <raytrain/core/file_descriptor.hpp>

namespace raytrain::detail {

/// A file that is written under a draft's name, and takes its own once it is complete; else the draft is removed. A
/// symbolic link stays one: it is the file that it leads to which is written, be that there or not.
///
/// Errors: every function throws `io` when the operating system cannot write.
class NewFile {
 public:
  /// `attempted`: of the errors.
  ///
  /// Errors: `invalid_call` for a name that ends in .gz, since nothing is compressed here.
  NewFile(std::filesystem::path path, std::string attempted);
  NewFile(NewFile const&) = delete;
  auto operator=(NewFile const&) -> NewFile& = delete;
  ~NewFile();

  void write(std::string_view text);

  /// Calls `change` with what was written from `first` on, `bytes` in all, piece by piece, and writes what it makes of
  /// it in its place. Pieces are multiples of 1 MiB but for the last one.
  void rewrite(std::uint64_t first, std::uint64_t bytes, std::function<void(std::span<std::byte> piece)> const& change);

  /// Syncs the content and gives it its name; the folder is not synced.
  void finish();

 private:
  [[noreturn]] void refuse(int code) const;

  std::filesystem::path path_;
  std::string attempted_;
  std::string draft_;
  FileDescriptor file_;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/detail/new_file-inl.hpp>
#endif
