// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/train/append_file.hpp>
#include <raytrain/train/callback.hpp>

namespace raytrain {

/// Appends rank 0's reports to a table (RFC 4180) whose columns are those of the first report.
class Csv final : public Callback {
 public:
  /// Empty: progress.csv in the run's folder.
  explicit Csv(std::filesystem::path path = {}) : path_{std::move(path)} {}

  /// Errors: `io` when the file cannot be opened; then reports are not written.
  void on_start(RunInfo const& info) override;

  /// Errors: `io`; `invalid_report` for a metric that is not among the columns, once for each, when the row is written.
  void on_report(Report const& report, Metrics const& all) override;

  void on_finish(Result const&) override { file_.finish(); }

 private:
  template <class F>
  void write_row(F const& cell) {
    std::string row;
    for (auto const& column : columns_) {
      if (!row.empty() || &column != columns_.data()) row += ',';
      row += cell(column);
    }
    file_.write_line(row);
  }

  void refuse_others(Metrics const& all);

  [[nodiscard]] static auto text_of(MetricValue const& value) -> std::string;

  [[nodiscard]] static auto quoted(std::string const& text) -> std::string;

  // Of a table that goes on, as RFC 4180 has them.
  [[nodiscard]] static auto columns_of(std::filesystem::path const& path) -> std::vector<std::string>;

  std::filesystem::path path_;
  std::vector<std::string> columns_;
  std::vector<std::string> refused_;  // metrics
  AppendFile file_;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/callback/csv-inl.hpp>
#endif
