// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <raytrain/core/element_type.hpp>
#include <raytrain/core/file_descriptor.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/detail/new_file.hpp>
#include <raytrain/message/fields.hpp>

namespace raytrain::detail {

/// raytrain_dataset.json: what a folder of columns holds.
struct DatasetManifest {
  struct ColumnEntry {
    std::string name{};
    std::string file{};
    std::string type{};
    std::vector<std::uint64_t> row_shape{};
    std::optional<std::vector<std::string>> categories{};  ///< Of text, sorted.

    template <class Archive>
    void serialize(Archive& archive) {
      archive(CEREAL_NVP(name), CEREAL_NVP(file), CEREAL_NVP(type), CEREAL_NVP(row_shape), CEREAL_NVP(categories));
    }
  };

  static constexpr std::uint64_t current_format = 1;
  static constexpr char const* file_name = "raytrain_dataset.json";

  std::uint64_t format = current_format;
  bool is_complete = false;
  std::string source{};
  std::uint64_t rows = 0;
  std::vector<ColumnEntry> columns{};

  template <class Archive>
  void serialize(Archive& archive) {
    archive(CEREAL_NVP(format), CEREAL_NVP(is_complete), CEREAL_NVP(source), CEREAL_NVP(rows), CEREAL_NVP(columns));
  }
};

/// Errors: `not_found` where there is none; `invalid_data` for one that cannot be read; `io`.
[[nodiscard]] auto read_dataset_manifest(std::filesystem::path const& folder) -> DatasetManifest;

/// The same; none where there is none.
[[nodiscard]] auto find_dataset_manifest(std::filesystem::path const& folder) -> std::optional<DatasetManifest>;

/// A folder of columns, which this process alone writes while it holds it; others wait.
///
/// Errors: every function throws `io` when a system call fails.
class DatasetFolder {
 public:
  /// Makes it where it is not there, and waits for whoever holds it. While it waits, it calls `while_waiting` 20 times
  /// a second, unless that is empty; what it throws ends the wait.
  DatasetFolder(std::filesystem::path path, std::function<void()> const& while_waiting);
  DatasetFolder(DatasetFolder const&) = delete;
  auto operator=(DatasetFolder const&) -> DatasetFolder& = delete;
  ~DatasetFolder();

  /// Removes what an earlier writer has left, and says that one writes.
  ///
  /// Errors: also `invalid_data` where it holds anything else, of which nothing is removed.
  void begin(std::string const& source) const;

  /// Errors: also where it is not the folder any more that it was.
  void write_manifest(DatasetManifest const& manifest) const;

  [[nodiscard]] auto path() const noexcept -> std::filesystem::path const& { return path_; }

 private:
  static constexpr char const* lock_name = "raytrain_dataset.lock";

  [[nodiscard]] static auto is_own(std::string_view name) -> bool;

  /// Gives what an earlier writer has left, but for the lock. Errors: also `invalid_data` where there is anything else.
  auto check_holds_own() const -> std::vector<std::filesystem::path>;

  /// Whether the file that is locked still has its name.
  [[nodiscard]] auto is_held() const -> bool;

  /// Waits until nobody else has it.
  void lock(std::function<void()> const& while_waiting) const;

  [[noreturn]] void refuse(int code) const;

  std::filesystem::path path_;
  FileDescriptor lock_;
};

/// A `ColumnEntry::type`: that of the file, whose values are codes where the column is of text.
[[nodiscard]] inline auto type_of_values(Column const& column) -> std::string_view {
  return column.is_text() ? to_string(column.type()) : column.type_name();
}

/// Writes one column of a folder, block by block.
///
/// Errors: every function throws `io` where the system cannot write.
class ColumnWriter {
 public:
  /// Errors: also `invalid_data` for what NumPy's format has not.
  ColumnWriter(std::filesystem::path const& path, ColumnFormat format, std::string attempted);

  /// Writes these rows behind those before. Their type and row shape are those of the format; the categories of texts
  /// may be others in each block. Errors: also `invalid_data` for a boolean that is neither 0 nor 1.
  void append(Column const& rows);

  /// Completes the file after the last rows, and is called once. Returns the categories of all rows, in ascending
  /// order, where the column is text.
  [[nodiscard]] auto finish() -> std::optional<std::vector<std::string>>;

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  void append_codes(Column const& rows);

  ColumnFormat format_;
  std::string attempted_;
  NewFile file_;
  std::size_t rows_ = 0;
  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> codes_;  ///< Of texts.
};

/// Errors: those of `open_dataset`.
[[nodiscard]] auto open_columns(std::filesystem::path const& folder, DatasetManifest const& manifest) -> Dataset;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/detail/dataset_folder-inl.hpp>
#endif
