// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/checkpoint/checkpoint_files.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain::detail {

/// Those of a checkpoint that is a directory.
class DirectoryFiles final : public CheckpointFiles {
 public:
  explicit DirectoryFiles(std::filesystem::path directory) : directory_{std::move(directory)} {}

  [[nodiscard]] auto location() const -> std::string override { return directory_.string(); }
  [[nodiscard]] auto directory() const noexcept -> std::filesystem::path const& override { return directory_; }
  void check_there() const override;
  [[nodiscard]] auto list() const -> std::vector<FileEntry> override;
  [[nodiscard]] auto size_of(std::string const& name) const -> std::optional<std::uint64_t> override;
  [[nodiscard]] auto read(std::string const& name) const -> Bytes override;
  [[nodiscard]] auto view(std::string const& name) const -> SharedBytes override;
  [[nodiscard]] auto xxh3_of(std::string const& name) const -> std::string override;

 private:
  std::filesystem::path directory_;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/checkpoint/detail/directory_files-inl.hpp>
#endif
