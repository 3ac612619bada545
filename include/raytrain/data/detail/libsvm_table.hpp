// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <raytrain/data/dataset.hpp>
#include <raytrain/data/libsvm_options.hpp>

namespace raytrain::detail {

inline constexpr auto largest_libsvm_index = std::numeric_limits<std::uint32_t>::max();

/// Makes columns of the lines of LIBSVM's format.
class LibsvmTable {
 public:
  [[nodiscard]] static auto options_name() -> std::string { return "LibsvmOptions"; }

  explicit LibsvmTable(LibsvmOptions const& options);

  /// The next lines are of this file.
  void begin_file(std::string const& name);

  /// Whether the line is a row; one of blanks and a comment is none.
  [[nodiscard]] static auto is_row(std::string_view line) noexcept -> bool {
    auto const begin = line.find_first_not_of(" \t\r");
    return begin != std::string_view::npos && line[begin] != '#';
  }

  void add_line(std::string_view line, std::uint64_t number);

  /// Rows that came since the last `take`.
  [[nodiscard]] auto rows() const noexcept -> std::size_t { return labels_.size(); }

  /// Whether a line has said whether there are qids.
  [[nodiscard]] auto is_settled() const noexcept -> bool { return has_qids_.has_value(); }

  /// One that makes the same rows of further lines of the file, where this one is settled.
  [[nodiscard]] auto without_rows() const -> LibsvmTable;

  /// Whether the rows of `part`, which `without_rows` gave, are those that this one would make of its lines.
  [[nodiscard]] static auto takes(LibsvmTable const& /*part*/) noexcept -> bool { return true; }

  /// `count` of these rows, from `first` on.
  void add_rows(LibsvmTable const& part, std::size_t first, std::size_t count);

  /// These rows; more may follow. Errors: also `invalid_data` where there are none.
  [[nodiscard]] auto take() -> Dataset;

  /// Behind the last line. Errors: `invalid_data` where there was no row.
  void finish() const;

 private:
  struct Entry {
    std::uint32_t index{};
    float value{};
  };
  struct Place {
    std::size_t file{};
    std::uint64_t line{};
  };

  void add_feature(std::string_view token, std::size_t first_entry);

  void add_qid(std::string_view token);

  [[nodiscard]] auto is_zero_based() const -> bool { return options_.zero_based.value_or(smallest_index_ == 0); }

  /// How many features there are.
  [[nodiscard]] auto width() const -> std::size_t;

  [[nodiscard]] auto dense_features(std::size_t width) const -> std::vector<float>;

  [[noreturn]] void refuse(std::string const& happened, std::string remedy) const { refuse(happened, remedy, place_); }
  [[noreturn]] void refuse(std::string const& happened, std::string remedy, Place place) const;

  LibsvmOptions const& options_;
  std::vector<std::string> attempted_;  ///< Of each file.
  Place place_;
  std::vector<float> labels_;
  std::optional<bool> has_qids_;  ///< As the first line says.
  std::vector<std::int64_t> qids_;
  std::vector<Entry> entries_;
  std::vector<std::size_t> row_ends_;  ///< Among the entries.
  std::uint32_t smallest_index_ = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t largest_index_ = 0;
  Place largest_place_;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/detail/libsvm_table-inl.hpp>
#endif
