// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/detail/file_name.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/rank.hpp>
#include <raytrain/message/utf8.hpp>

namespace raytrain {

/// One rank's part of a checkpoint that is yet to be written: files and metadata, held in memory.
///
/// Cost: copies share the files' contents.
class CheckpointDraft {
 public:
  using Fill = std::function<void(CheckpointDraft&)>;
  using Content = std::shared_ptr<Bytes const>;

  CheckpointDraft() = default;

  /// What a checkpoint holds now; its directory may go away afterwards.
  ///
  /// Errors: as `Checkpoint::read`.
  CheckpointDraft(Checkpoint const& checkpoint)  // NOLINT(google-explicit-constructor): report(metrics, checkpoint)
      : metadata_{checkpoint.metadata()} {
    for (auto const& file : checkpoint.files()) add(file.name, checkpoint.read(file.name));
  }

  /// What a directory holds now; it may go away afterwards.
  ///
  /// Errors: as `Checkpoint::from_directory` and `Checkpoint::read`.
  [[nodiscard]] static auto from_directory(std::filesystem::path const& directory) -> CheckpointDraft {
    return CheckpointDraft{Checkpoint::from_directory(directory)};
  }

  /// State that is the same on every rank: `fill` is called on rank 0 only, and only rank 0's is written.
  [[nodiscard]] static auto replicated(Fill fill) -> CheckpointDraft {
    CheckpointDraft draft;
    draft.fill_ = std::move(fill);
    return draft;
  }

  /// `name`: relative to the checkpoint, '/' between folders.
  ///
  /// Errors: `invalid_report` for a name that leads outside, is taken, or is one that no file can have.
  auto add(std::string name, Bytes content) -> CheckpointDraft& {
    check_name(name);
    files_.emplace(std::move(name), std::make_shared<Bytes const>(std::move(content)));
    return *this;
  }
  auto add(std::string name, std::string_view text) -> CheckpointDraft& {
    auto const bytes = bytes_of(text);
    return add(std::move(name), Bytes{bytes.begin(), bytes.end()});
  }

  /// A line that belongs to the whole checkpoint: ranks that set the same key must agree on its value.
  ///
  /// Errors: `invalid_report` for text that is not UTF-8.
  auto set_metadata(std::string key, std::string value) -> CheckpointDraft& {
    if (!is_utf8(key) || !is_utf8(value)) {
      throw Error{Errc::invalid_report, "CheckpointDraft::set_metadata", "'" + to_utf8(key) + "' is not UTF-8 text",
                  "add bytes as a file"};
    }
    metadata_.insert_or_assign(std::move(key), std::move(value));
    return *this;
  }

  /// This rank's files go below a folder of its own, rank_0003/, so that ranks may use the same names.
  auto per_rank() -> CheckpointDraft& {
    per_rank_ = true;
    return *this;
  }

  /// Makes a replicated draft definite: filled on rank 0, empty on the others. Nothing to do for any other.
  void materialize(Rank rank) {
    auto const fill = std::exchange(fill_, nullptr);
    if (fill && rank == Rank{0}) fill(*this);
  }

  /// Whether it has no file; of a replicated one known only after `materialize`.
  [[nodiscard]] auto empty() const noexcept -> bool { return files_.empty(); }
  [[nodiscard]] auto is_materialized() const noexcept -> bool { return !fill_; }
  [[nodiscard]] auto is_per_rank() const noexcept -> bool { return per_rank_; }
  [[nodiscard]] auto files() const noexcept -> std::map<std::string, Content> const& { return files_; }
  [[nodiscard]] auto metadata() const noexcept -> std::map<std::string, std::string> const& { return metadata_; }

 private:
  void check_name(std::string const& name) const {
    auto const refuse = [&](std::string const& happened) {
      throw Error{Errc::invalid_report, "adding the file '" + detail::shown_name(name) + "' to a checkpoint", happened,
                  "name it relative to the checkpoint, like 'model.pt' or 'model/weights.bin'"};
    };
    if (auto const problem = detail::file_name_problem(name)) refuse("its name " + *problem);
    if (auto const* const clash = detail::find_clash(files_, name)) {
      refuse(clash->first == name ? "it was added before"
                                  : "'" + clash->first + "' was added before, and one is a folder of the other");
    }
  }

  std::map<std::string, Content> files_;
  std::map<std::string, std::string> metadata_;
  Fill fill_;
  bool per_rank_ = false;
};

}  // namespace raytrain
