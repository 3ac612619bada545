// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <utility>

#include <raytrain/core/metrics.hpp>
#include <raytrain/message/json.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/train/append_file.hpp>
#include <raytrain/train/callback.hpp>
#include <raytrain/train/result.hpp>

namespace raytrain {

/// Appends every report of every rank to a file, one JSON object a line, as `fit()` itself does to progress.jsonl.
class JsonLines final : public Callback {
 public:
  explicit JsonLines(std::filesystem::path path) : path_{std::move(path)} {}

  void on_start(RunInfo const&) override { file_ = AppendFile{path_}; }

  void on_report(Report const&, Metrics const& all) override { file_.write_line(to_json(all)); }

  void on_finish(Result const&) override { file_.finish(); }

  /// A record with holes is no record.
  [[nodiscard]] auto critical() const noexcept -> bool override { return true; }

 private:
  std::filesystem::path path_;
  AppendFile file_;
};

}  // namespace raytrain
