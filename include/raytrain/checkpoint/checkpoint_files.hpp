// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <raytrain/core/bytes.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

/// The files of one checkpoint, wherever they lie. A `CheckpointStore` gives them out, and a `Checkpoint` reads by
/// them.
///
/// A name is relative to the checkpoint, with '/' between folders.
/// Threads: every function from any thread.
class CheckpointFiles {
 public:
  CheckpointFiles() = default;
  CheckpointFiles(CheckpointFiles const&) = delete;
  auto operator=(CheckpointFiles const&) -> CheckpointFiles& = delete;
  virtual ~CheckpointFiles() = default;

  /// Where they lie, as people are told: a path or an address.
  [[nodiscard]] virtual auto location() const -> std::string = 0;

  /// The directory that holds them, by their names; empty if there is none.
  [[nodiscard]] virtual auto directory() const noexcept -> std::filesystem::path const&;

  /// Returns if the checkpoint is there.
  ///
  /// Errors: `not_found`; `io` when it cannot be said.
  virtual void check_there() const = 0;

  /// Those that are there now, in the order of their names, without checksums.
  ///
  /// Errors: `not_found` when the checkpoint is gone; `io`.
  [[nodiscard]] virtual auto list() const -> std::vector<FileEntry> = 0;

  /// In bytes; none if there is no such file.
  ///
  /// Errors: `corrupt_checkpoint` when something else has the name; `io`.
  [[nodiscard]] virtual auto size_of(std::string const& name) const -> std::optional<std::uint64_t> = 0;

  /// Errors: `io`; for a name that is not there, too.
  [[nodiscard]] virtual auto read(std::string const& name) const -> Bytes = 0;

  /// The same without a copy in memory, where a model overrides it: bytes that stay where they are until the result is
  /// gone, also when the checkpoint is removed.
  ///
  /// Errors: as `read`.
  [[nodiscard]] virtual auto view(std::string const& name) const -> SharedBytes;

  /// XXH3-128 of what `read` gives, 32 hexadecimal digits. A model overrides it to hash without holding all of it.
  ///
  /// Errors: as `read`.
  [[nodiscard]] virtual auto xxh3_of(std::string const& name) const -> std::string;

  /// "reading checkpoint 'runs/a/checkpoints/checkpoint_000012'"
  [[nodiscard]] auto attempted() const -> std::string { return "reading checkpoint '" + location() + "'"; }

  /// Throws `corrupt_checkpoint` for one file, or `not_found` if the whole checkpoint is gone.
  [[noreturn]] void refuse(std::string const& name, std::string const& happened) const;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/checkpoint/checkpoint_files-inl.hpp>
#endif
