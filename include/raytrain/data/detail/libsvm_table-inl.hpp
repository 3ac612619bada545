// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/detail/libsvm_table.hpp>
#include <raytrain/data/detail/parse_number.hpp>
#include <raytrain/data/detail/shown_field.hpp>

namespace raytrain::detail {

/// Takes the first word off a line; empty at the end.
[[nodiscard]] RAYTRAIN_INLINE auto take_word(std::string_view& line) -> std::string_view {
  auto const is_blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  auto const* const begin = std::ranges::find_if_not(line, is_blank);
  auto const* const end = std::ranges::find_if(begin, line.end(), is_blank);
  line.remove_prefix(static_cast<std::size_t>(end - line.begin()));
  return {begin, end};
}

RAYTRAIN_INLINE LibsvmTable::LibsvmTable(LibsvmOptions const& options) : options_{options} {
  if (options.features == 0) {
    throw Error{Errc::invalid_config, "LibsvmOptions::features", "must be at least 1 (got 0)",
                "write how many there are; read_libsvm finds it where it is unset"};
  }
}

RAYTRAIN_INLINE void LibsvmTable::begin_file(std::string const& name) {
  place_ = {attempted_.size(), 0};
  attempted_.push_back(fmt::format("read LIBSVM file '{}'", name));
}

RAYTRAIN_INLINE void LibsvmTable::add_line(std::string_view line, std::uint64_t number) {
  place_.line = number;
  if (!is_row(line)) return;
  line = line.substr(0, line.find('#'));
  auto const label = take_word(line);
  if (!parse_float(label, labels_.emplace_back())) {
    refuse(fmt::format("the label '{}' is not a number that float32 can hold", shown_field(label)),
           "begin each line with one label");
  }
  auto const first_entry = entries_.size();
  auto word = take_word(line);
  auto const has_qid = word.starts_with("qid:");
  if (has_qids_.value_or(has_qid) != has_qid) {
    refuse(has_qid ? "it has a qid, and a line before it has none" : "it has no qid, and a line before it has one",
           "give all lines a qid, or none");
  }
  has_qids_ = has_qid;
  if (has_qid) {
    add_qid(word.substr(4));
    word = take_word(line);
  }
  for (; !word.empty(); word = take_word(line)) add_feature(word, first_entry);
  row_ends_.push_back(entries_.size());
}

RAYTRAIN_INLINE void LibsvmTable::add_qid(std::string_view token) {
  if (parse_number(token, qids_.emplace_back()) != std::errc{}) {
    refuse(fmt::format("the qid '{}' is not a whole number that int64 can hold", shown_field(token)),
           "number the queries");
  }
}

RAYTRAIN_INLINE void LibsvmTable::add_feature(std::string_view token, std::size_t first_entry) {
  auto const* const last = token.data() + token.size();
  Entry entry;
  auto const [colon, problem] = std::from_chars(token.data(), last, entry.index);
  if (problem == std::errc::result_out_of_range) {
    refuse(fmt::format("the index of '{}' is larger than {}", shown_field(token), largest_libsvm_index),
           "number the features from 0 or 1 on");
  }
  if (problem != std::errc{} || colon == last || *colon != ':' || !parse_float({colon + 1, last}, entry.value)) {
    refuse(fmt::format("'{}' is no index, colon and number that float32 can hold", shown_field(token)),
           "write features as 3:0.5; qid comes right behind the label");
  }
  if (entries_.size() > first_entry && entries_.back().index >= entry.index) {
    refuse(fmt::format("the index {} follows {}", entry.index, entries_.back().index),
           "sort the features of each line, and name each once");
  }
  auto const first_index = options_.zero_based == false ? 1U : 0U;
  if (entry.index < first_index)
    refuse("it has the index 0, and indices begin with 1", "set LibsvmOptions::zero_based to true");
  auto const most = options_.features.value_or(std::size_t{largest_libsvm_index} + 1);
  if (entry.index > most || (options_.zero_based == true && entry.index == most)) {
    refuse(fmt::format("the index {} is beyond {} features", entry.index, most), "set LibsvmOptions::features");
  }
  smallest_index_ = std::min(smallest_index_, entry.index);
  if (entry.index > largest_index_) {
    largest_index_ = entry.index;
    largest_place_ = place_;
  }
  entries_.push_back(entry);
}

RAYTRAIN_INLINE auto LibsvmTable::width() const -> std::size_t {
  if (entries_.empty() && !options_.features) refuse("no line has a feature", "set LibsvmOptions::features");
  auto const needed = std::size_t{largest_index_} + (is_zero_based() ? 1 : 0);
  auto const width = options_.features.value_or(needed);
  if (needed > width) {
    refuse(fmt::format("the index {} is beyond {} features, since indices begin with 0", largest_index_, width),
           "set LibsvmOptions::features or zero_based", largest_place_);
  }
  if (width > options_.max_bytes / sizeof(float) / labels_.size()) {
    auto const size = fmt::format(
        "{} rows of {} features take {} bytes, more than LibsvmOptions::max_bytes, {}", labels_.size(), width,
        static_cast<long double>(width) * static_cast<long double>(sizeof(float) * labels_.size()), options_.max_bytes);
    if (options_.features) {
      throw Error{Errc::invalid_data, attempted_.back(), size, "set it, or read smaller blocks by libsvm_blocks"};
    }
    refuse(size + "; the largest index is on this line", "number the features without gaps, or set it", largest_place_);
  }
  return width;
}

RAYTRAIN_INLINE auto LibsvmTable::dense_features(std::size_t width) const -> std::vector<float> {
  std::vector<float> features(width * labels_.size(), options_.absent);
  auto const first_index = is_zero_based() ? std::size_t{0} : std::size_t{1};
  std::size_t entry = 0;
  for (std::size_t row = 0; row < row_ends_.size(); ++row) {
    for (; entry < row_ends_[row]; ++entry) {
      features[row * width + entries_[entry].index - first_index] = entries_[entry].value;
    }
  }
  return features;
}

RAYTRAIN_INLINE auto LibsvmTable::without_rows() const -> LibsvmTable {
  LibsvmTable table{options_};
  table.attempted_ = attempted_;
  table.place_ = place_;
  table.has_qids_ = has_qids_;
  return table;
}

RAYTRAIN_INLINE void LibsvmTable::add_rows(LibsvmTable const& part, std::size_t first, std::size_t count) {
  auto const append = [](auto& all, auto const& of_part, std::size_t from, std::size_t values) {
    auto const added = std::span{of_part}.subspan(from, values);
    all.insert(all.end(), added.begin(), added.end());
  };
  append(labels_, part.labels_, first, count);
  if (has_qids_ == true) append(qids_, part.qids_, first, count);
  auto const entries_until = [&](std::size_t row) { return row == 0 ? std::size_t{0} : part.row_ends_[row - 1]; };
  auto const first_entry = entries_until(first);
  for (auto row = first; row < first + count; ++row) {
    row_ends_.push_back(entries_.size() + part.row_ends_[row] - first_entry);
  }
  append(entries_, part.entries_, first_entry, entries_until(first + count) - first_entry);
  smallest_index_ = std::min(smallest_index_, part.smallest_index_);
  if (part.largest_index_ > largest_index_) {
    largest_index_ = part.largest_index_;
    largest_place_ = part.largest_place_;
  }
  place_ = part.place_;
}

RAYTRAIN_INLINE auto LibsvmTable::take() -> Dataset {
  finish();
  auto const features = width();
  std::vector<Column> columns;
  columns.emplace_back("features", dense_features(features), RowShape{features});
  entries_.clear();
  row_ends_.clear();
  if (has_qids_ == true) columns.emplace(columns.begin(), "qid", std::exchange(qids_, {}));
  columns.emplace(columns.begin(), "label", std::exchange(labels_, {}));
  return Dataset::from_columns(std::move(columns));
}

RAYTRAIN_INLINE void LibsvmTable::finish() const {
  if (has_qids_) return;
  throw Error{Errc::invalid_data, attempted_.back(), "there are no rows", "look at the file"};
}

RAYTRAIN_INLINE void LibsvmTable::refuse(std::string const& happened, std::string remedy, Place place) const {
  throw Error{Errc::invalid_data, attempted_[place.file], fmt::format("line {}: {}", place.line, happened),
              std::move(remedy)};
}

}  // namespace raytrain::detail
