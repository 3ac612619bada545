// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <variant>
#include <vector>

#include <raytrain/callback/csv.hpp>
#include <raytrain/checkpoint/run_record.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/train/append_file.hpp>
#include <raytrain/train/callback.hpp>

namespace raytrain {

RAYTRAIN_INLINE void Csv::on_start(RunInfo const& info) {
  file_ = {};
  auto const path = path_.empty() ? info.path / csv_file_name : path_;
  columns_ = columns_of(path);
  refused_.clear();
  file_ = AppendFile{path};
}

RAYTRAIN_INLINE void Csv::on_report(Report const& report, Metrics const& all) {
  if (report.rank != Rank{0} || !file_.is_open()) return;
  if (columns_.empty()) {
    for (auto const& entry : all) columns_.push_back(entry.name);
    auto const is_first_line = file_.empty();
    try {
      write_row([](std::string const& column) { return quoted(column); });
    } catch (...) {
      columns_.clear();  // the next report's row gets it
      if (is_first_line) file_.clear();
      throw;
    }
  }
  write_row([&](std::string const& column) {
    auto const* const value = all.find(column);
    return value != nullptr ? text_of(*value) : std::string{};
  });
  refuse_others(all);
}

RAYTRAIN_INLINE void Csv::refuse_others(Metrics const& all) {
  if (std::ranges::equal(all, columns_, {}, &Metrics::Entry::name)) return;
  auto const is_in = [](std::vector<std::string> const& names, std::string const& name) {
    return std::ranges::find(names, name) != names.end();
  };
  std::string others;
  for (auto const& entry : all) {
    if (is_in(columns_, entry.name) || is_in(refused_, entry.name)) continue;
    refused_.push_back(entry.name);
    others += (others.empty() ? "'" : ", '") + entry.name + "'";
  }
  if (others.empty()) return;
  throw Error{Errc::invalid_report, "writing a report as CSV",
              "there is no column for " + others + ": left out of this row and those to come",
              "report the same fields each time, or use JsonLines"};
}

RAYTRAIN_INLINE auto Csv::text_of(MetricValue const& value) -> std::string {
  if (auto const* const text = std::get_if<std::string>(&value)) return quoted(*text);
  return std::visit([](auto const& plain) { return fmt::format("{}", plain); }, value);
}

RAYTRAIN_INLINE auto Csv::quoted(std::string const& text) -> std::string {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string result = "\"";
  for (auto const letter : text) {
    if (letter == '"') result += '"';
    result += letter;
  }
  return result + '"';
}

RAYTRAIN_INLINE auto Csv::columns_of(std::filesystem::path const& path) -> std::vector<std::string> {
  std::vector<std::string> columns;
  std::error_code ignored;
  // Reading a pipe would wait for a writer for ever.
  if (!std::filesystem::is_regular_file(path, ignored)) return columns;
  std::ifstream file{path};
  std::string name;
  auto is_quoted = false;
  for (char letter{}; file.get(letter) && (is_quoted || letter != '\n');) {
    auto const is_quote = letter == '"';
    if (is_quote && is_quoted && file.peek() == '"') {
      name += static_cast<char>(file.get());
    } else if (is_quote) {
      is_quoted = !is_quoted;
    } else if (letter == ',' && !is_quoted) {
      columns.push_back(std::exchange(name, {}));
    } else {
      name += letter;
    }
  }
  if (!columns.empty() || !name.empty()) columns.push_back(std::move(name));
  return columns;
}

}  // namespace raytrain
