// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/file_descriptor.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/utf8.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/detail/data_file.hpp>
#include <raytrain/data/detail/dataset_folder.hpp>
#include <raytrain/data/detail/new_file.hpp>
#include <raytrain/data/detail/npy_header.hpp>
#include <raytrain/data/npy.hpp>
#include <raytrain/message/json.hpp>

namespace raytrain::detail {

[[nodiscard]] RAYTRAIN_INLINE auto dataset_folder_text(std::filesystem::path const& path) -> std::string {
  return fmt::format("dataset folder '{}'", path.string());
}

RAYTRAIN_INLINE auto read_dataset_manifest(std::filesystem::path const& folder) -> DatasetManifest {
  DataFile file{folder / DatasetManifest::file_name};
  std::string text;
  std::vector<std::byte> piece(std::size_t{1} << 20U);
  while (auto const count = file.read(piece)) text += text_of(std::span{piece}.first(count));
  auto manifest = read_json<DatasetManifest>(text, file.path().string());
  if (manifest.format == DatasetManifest::current_format) return manifest;
  throw Error{
      Errc::invalid_data, dataset_folder_text(folder),
      fmt::format("its format is {}, and this raytrain reads {}", manifest.format, DatasetManifest::current_format),
      "write it by this raytrain, into another folder"};
}

RAYTRAIN_INLINE auto find_dataset_manifest(std::filesystem::path const& folder) -> std::optional<DatasetManifest> {
  std::error_code ignored;
  if (!std::filesystem::exists(folder / DatasetManifest::file_name, ignored)) return std::nullopt;
  return read_dataset_manifest(folder);
}

// A file is locked, not the folder: file systems over a network lock files for all hosts, and folders for none.
RAYTRAIN_INLINE DatasetFolder::DatasetFolder(std::filesystem::path path, std::function<void()> const& while_waiting)
    : path_{std::move(path)} {
  std::error_code ignored;
  if (std::filesystem::is_directory(path_, ignored)) check_holds_own();  // before the lock is one more
  do {
    std::error_code problem;
    std::filesystem::create_directories(path_, problem);
    if (problem) refuse(problem.value());
    lock_ = FileDescriptor{::open((path_ / lock_name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)};
    if (!lock_.is_open()) refuse(errno);
    lock(while_waiting);
  } while (!is_held());  // somebody has removed the folder meanwhile
}

RAYTRAIN_INLINE void DatasetFolder::lock(std::function<void()> const& while_waiting) const {
  constexpr std::chrono::milliseconds interval{50};
  while (::flock(lock_.get(), while_waiting ? LOCK_EX | LOCK_NB : LOCK_EX) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) refuse(errno);
    while_waiting();
    std::this_thread::sleep_for(interval);
  }
}

// Closing it would not do while a process that was forked meanwhile has it, too.
RAYTRAIN_INLINE DatasetFolder::~DatasetFolder() { (void)::flock(lock_.get(), LOCK_UN); }

RAYTRAIN_INLINE auto DatasetFolder::is_held() const -> bool {
  struct ::stat held {};
  struct ::stat named {};
  if (::fstat(lock_.get(), &held) != 0) refuse(errno);
  if (::stat((path_ / lock_name).c_str(), &named) != 0) return false;
  return held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

/// Nothing where it begins otherwise.
[[nodiscard]] RAYTRAIN_INLINE auto without_prefix(std::string_view text, std::string_view prefix)
    -> std::optional<std::string_view> {
  if (!text.starts_with(prefix)) return std::nullopt;
  return text.substr(prefix.size());
}

/// Without the digits that it begins with, of which there is one at least.
[[nodiscard]] RAYTRAIN_INLINE auto without_digits(std::string_view text) -> std::optional<std::string_view> {
  auto const digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits == 0) return std::nullopt;
  return text.substr(digits);
}

RAYTRAIN_INLINE auto DatasetFolder::is_own(std::string_view name) -> bool {
  if (name == lock_name) return true;
  auto rest = without_prefix(name, DatasetManifest::file_name);
  if (!rest) {
    rest = without_prefix(name, "column_");
    if (rest) rest = without_digits(*rest);
    if (rest) rest = without_prefix(*rest, ".npy");
  }
  if (!rest) return false;
  if (rest->empty()) return true;
  rest = without_prefix(*rest, ".");  // a NewFile's draft: ".123-4.tmp"
  if (rest) rest = without_digits(*rest);
  if (rest) rest = without_prefix(*rest, "-");
  if (rest) rest = without_digits(*rest);
  return rest == ".tmp";
}

RAYTRAIN_INLINE auto DatasetFolder::check_holds_own() const -> std::vector<std::filesystem::path> {
  std::vector<std::filesystem::path> left;
  try {
    for (auto const& entry : std::filesystem::directory_iterator{path_}) {
      auto const name = entry.path().filename().string();
      if (!is_own(name)) {
        throw Error{Errc::invalid_data, dataset_folder_text(path_), fmt::format("it holds something else: '{}'", name),
                    "name a folder that is empty, or not there"};
      }
      if (name != lock_name) left.push_back(entry.path());
    }
  } catch (std::filesystem::filesystem_error const& error) {
    refuse(error.code().value());
  }
  return left;
}

RAYTRAIN_INLINE void DatasetFolder::begin(std::string const& source) const {
  for (auto const& path : check_holds_own()) {
    if (path.filename() == DatasetManifest::file_name) continue;  // others look for it without the lock
    std::error_code problem;
    std::filesystem::remove(path, problem);
    if (problem) refuse(problem.value());
  }
  write_manifest({.source = source});
}

RAYTRAIN_INLINE void DatasetFolder::write_manifest(DatasetManifest const& manifest) const {
  if (!is_held()) {
    throw Error{Errc::io, dataset_folder_text(path_), "it was removed while it was written", "write it anew"};
  }
  FileDescriptor const folder{::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  auto const sync = [&] {
    if (::fsync(folder.get()) != 0 && errno != EINVAL) refuse(errno);  // some file systems have none for folders
  };
  if (!folder.is_open()) refuse(errno);
  sync();  // columns are there before it says so
  NewFile file{path_ / DatasetManifest::file_name, "write " + dataset_folder_text(path_)};
  file.write(write_json(manifest));
  file.finish();
  sync();
}

RAYTRAIN_INLINE void DatasetFolder::refuse(int code) const {
  throw Error{Errc::io, dataset_folder_text(path_), std::generic_category().message(code),
              "look at its permissions, and whether it is a folder"};
}

RAYTRAIN_INLINE ColumnWriter::ColumnWriter(std::filesystem::path const& path, ColumnFormat format,
                                           std::string attempted)
    : format_{std::move(format)}, attempted_{std::move(attempted)}, file_{path, attempted_} {
  if (!is_utf8(format_.name)) {
    throw Error{Errc::invalid_data, attempted_,
                fmt::format("the name of column '{}' is not UTF-8", to_utf8(format_.name)),
                "give it another name by DatasetBlocks::map"};
  }
  file_.write(npy_header_of(format_, 0, attempted_));
}

RAYTRAIN_INLINE void ColumnWriter::append(Column const& rows) {
  rows.check_booleans(attempted_);
  rows_ += rows.rows();
  if (rows.is_text()) return append_codes(rows);
  file_.write(text_of(rows.bytes()));
}

RAYTRAIN_INLINE void ColumnWriter::append_codes(Column const& rows) {
  auto const refuse = [this](std::string happened) {
    throw Error{Errc::invalid_data, attempted_, std::move(happened),
                "leave the column out, or make other texts of its own by DatasetBlocks::map"};
  };
  constexpr std::int32_t not_utf8 = -1;
  auto const categories = rows.categories();
  std::vector<std::int32_t> numbers;  // of the block's categories
  for (auto const& text : categories) {
    auto found = codes_.find(text);
    if (found == codes_.end() && is_utf8(text)) {
      if (codes_.size() == static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
        refuse(fmt::format("column '{}' has more different texts than int32 can number", format_.name));
      }
      found = codes_.emplace(text, static_cast<std::int32_t>(codes_.size())).first;
    }
    numbers.push_back(found == codes_.end() ? not_utf8 : found->second);
  }
  std::vector<std::int32_t> codes;
  codes.reserve(rows.rows());
  for (auto const code : rows.as<std::int32_t>()) {
    if (codes.emplace_back(code) < 0) continue;
    auto const at = static_cast<std::size_t>(code);
    codes.back() = numbers[at];
    if (numbers[at] == not_utf8) {
      refuse(fmt::format("column '{}': '{}' is not UTF-8", format_.name, to_utf8(categories[at])));
    }
  }
  file_.write(text_of(std::as_bytes(std::span{codes})));
}

RAYTRAIN_INLINE auto ColumnWriter::finish() -> std::optional<std::vector<std::string>> {
  auto const header = npy_header_of(format_, rows_, attempted_);
  file_.rewrite(0, header.size(),
                [&](std::span<std::byte> piece) { std::ranges::copy(bytes_of(header), piece.begin()); });
  std::optional<std::vector<std::string>> categories;
  if (format_.categories != nullptr) {
    std::vector<std::pair<std::string, std::int32_t>> sorted{codes_.begin(), codes_.end()};
    std::ranges::sort(sorted);
    std::vector<std::int32_t> numbers(sorted.size());
    categories.emplace();
    for (auto& [text, code] : sorted) {
      numbers[static_cast<std::size_t>(code)] = static_cast<std::int32_t>(categories->size());
      categories->push_back(std::move(text));
    }
    file_.rewrite(header.size(), rows_ * sizeof(std::int32_t), [&](std::span<std::byte> piece) {
      for (std::size_t at = 0; at < piece.size(); at += sizeof(std::int32_t)) {
        std::int32_t code{};
        std::memcpy(&code, piece.data() + at, sizeof code);
        if (code >= 0) std::memcpy(piece.data() + at, &numbers[static_cast<std::size_t>(code)], sizeof code);
      }
    });
  }
  file_.finish();
  return categories;
}

[[nodiscard]] RAYTRAIN_INLINE auto damaged_folder(std::filesystem::path const& folder, std::string happened) -> Error {
  return {Errc::invalid_data, dataset_folder_text(folder), std::move(happened), "remove the folder, and write it anew"};
}

/// Errors: `invalid_data` where its file is missing, or has another number of rows, type or shape; `io`.
[[nodiscard]] RAYTRAIN_INLINE auto open_column(std::filesystem::path const& folder,
                                               DatasetManifest::ColumnEntry const& entry, std::uint64_t rows)
    -> Column {
  auto const is_inside =
      !entry.file.empty() && entry.file.find_first_of(std::string_view{"/\0", 2}) == std::string::npos;
  if (!is_inside) {
    throw damaged_folder(folder, fmt::format("column '{}' would be outside of it: '{}'", entry.name, entry.file));
  }
  std::error_code ignored;
  if (!std::filesystem::exists(folder / entry.file, ignored)) {
    throw damaged_folder(folder, fmt::format("column '{}' is not there: '{}'", entry.name, entry.file));
  }
  auto column = map_npy(folder / entry.file, {.column = entry.name}).column(entry.name);
  if (column.rows() != rows) {
    throw damaged_folder(folder,
                         fmt::format("column '{}' has {} rows in place of {}", entry.name, column.rows(), rows));
  }
  if (type_of_values(column) != entry.type || !std::ranges::equal(column.row_shape(), entry.row_shape)) {
    throw damaged_folder(folder, fmt::format("column '{}' has another type or row shape than was written: it is {} now",
                                             entry.name, column.describe()));
  }
  return column;
}

/// The column of texts that codes and categories are, or nothing where they do not belong together.
[[nodiscard]] RAYTRAIN_INLINE auto text_column(Column const& codes, std::vector<std::string> const& categories)
    -> std::optional<Column> {
  if (codes.type() != ElementType::int32 || !codes.row_shape().empty()) return std::nullopt;
  auto const is_code = [last = static_cast<std::int64_t>(categories.size()) - 1](std::int32_t code) {
    return code >= -1 && code <= last;
  };
  if (!std::ranges::is_sorted(categories, std::ranges::less_equal{})) return std::nullopt;
  if (!std::ranges::all_of(codes.as<std::int32_t>(), is_code)) return std::nullopt;
  auto format = codes.format();
  format.categories = std::make_shared<std::vector<std::string> const>(categories);
  auto const owner = std::make_shared<Column const>(codes);
  return Column{std::move(format), std::shared_ptr<std::byte const>{owner, owner->bytes().data()}, codes.rows()};
}

RAYTRAIN_INLINE auto open_columns(std::filesystem::path const& folder, DatasetManifest const& manifest) -> Dataset {
  if (!manifest.is_complete) throw damaged_folder(folder, "it is not complete: whoever wrote it was interrupted");
  if (manifest.columns.empty()) throw damaged_folder(folder, "it has no column");
  std::vector<Column> columns;
  for (auto const& entry : manifest.columns) {
    auto column = open_column(folder, entry, manifest.rows);
    if (entry.categories) {
      auto const texts = text_column(column, *entry.categories);
      if (!texts) throw damaged_folder(folder, fmt::format("column '{}' has other codes than texts", entry.name));
      column = *texts;
    }
    columns.push_back(std::move(column));
  }
  return Dataset::from_columns(std::move(columns));
}

}  // namespace raytrain::detail
