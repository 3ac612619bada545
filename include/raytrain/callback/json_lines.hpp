// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <utility>

#include <raytrain/callback/append_file.hpp>
#include <raytrain/message/json.hpp>
#include <raytrain/train/callback.hpp>

namespace raytrain {

/// Appends every report of every rank to a file, one JSON object a line. `fit()` does so to progress.jsonl.
class JsonLines final : public Callback {
 public:
  /// Empty: progress.jsonl in the run's folder.
  explicit JsonLines(std::filesystem::path path = {}) : path_{std::move(path)} {}

  void on_start(RunInfo const& info) override;

  void on_report(Report const&, Metrics const& all) override { file_.write_line(to_json(all)); }

  void on_finish(Result const&) override { file_.finish(); }

  /// A record with holes is no record.
  [[nodiscard]] auto critical() const noexcept -> bool override { return true; }

 private:
  std::filesystem::path path_;
  AppendFile file_;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/callback/json_lines-inl.hpp>
#endif
