// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
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

RAYTRAIN_INLINE DatasetFolder::DatasetFolder(std::filesystem::path path) : path_{std::move(path)} {
  auto const refuse = [&](int code) {
    return Error{Errc::io, dataset_folder_text(path_), std::generic_category().message(code),
                 "look at its permissions, and whether it is a folder"};
  };
  std::error_code problem;
  std::filesystem::create_directories(path_, problem);
  if (problem) throw refuse(problem.value());
  lock_ = FileDescriptor{::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!lock_.is_open()) throw refuse(errno);
  while (::flock(lock_.get(), LOCK_EX) != 0) {
    if (errno != EINTR) throw refuse(errno);
  }
}

RAYTRAIN_INLINE auto DatasetFolder::manifest() const -> std::optional<DatasetManifest> {
  if (std::filesystem::exists(path_ / DatasetManifest::file_name)) return read_dataset_manifest(path_);
  for (auto const& entry : std::filesystem::directory_iterator{path_}) {
    auto const name = entry.path().filename().string();
    if (name.starts_with(DatasetManifest::file_name)) continue;  // one that was never finished
    throw Error{Errc::invalid_data, dataset_folder_text(path_), fmt::format("it holds something else: '{}'", name),
                "name a folder that is empty, or not there"};
  }
  return std::nullopt;
}

RAYTRAIN_INLINE void DatasetFolder::begin(std::string const& source) const {
  write({.source = source});
  for (auto const& entry : std::filesystem::directory_iterator{path_}) {
    auto const is_manifest = entry.path().filename() == DatasetManifest::file_name;
    if (!is_manifest) std::filesystem::remove(entry.path());
  }
}

RAYTRAIN_INLINE void DatasetFolder::write(DatasetManifest const& manifest) const {
  NewFile file{path_ / DatasetManifest::file_name, "write " + dataset_folder_text(path_)};
  file.write(write_json(manifest));
  file.finish();
}

RAYTRAIN_INLINE ColumnWriter::ColumnWriter(std::filesystem::path const& path, ColumnFormat format,
                                           std::string attempted)
    : path_{path}, format_{std::move(format)}, attempted_{std::move(attempted)}, file_{path_, attempted_} {
  file_.write(npy_header_of(format_, 0, attempted_));
}

RAYTRAIN_INLINE void ColumnWriter::append(Column const& rows) {
  rows_ += rows.rows();
  if (rows.is_text()) return append_codes(rows);
  file_.write(text_of(rows.bytes()));
}

RAYTRAIN_INLINE void ColumnWriter::append_codes(Column const& rows) {
  std::vector<std::int32_t> numbers;  // of the block's categories
  for (auto const& text : rows.categories()) {
    auto found = codes_.find(text);
    if (found == codes_.end()) {
      if (!is_utf8(text) || codes_.size() == static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
        throw Error{Errc::invalid_data, attempted_,
                    is_utf8(text)
                        ? fmt::format("column '{}' has more different texts than int32 can number", format_.name)
                        : fmt::format("column '{}': '{}' is not UTF-8", format_.name, to_utf8(text)),
                    "leave the column out, or make other texts of its own by DatasetBlocks::map"};
      }
      found = codes_.emplace(text, static_cast<std::int32_t>(codes_.size())).first;
    }
    numbers.push_back(found->second);
  }
  std::vector<std::int32_t> codes;
  codes.reserve(rows.rows());
  for (auto const code : rows.as<std::int32_t>()) {
    codes.push_back(code < 0 ? code : numbers[static_cast<std::size_t>(code)]);
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

RAYTRAIN_INLINE auto open_columns(std::filesystem::path const& folder, DatasetManifest const& manifest) -> Dataset {
  auto const refuse = [&](std::string happened, std::string remedy = "remove the folder, and write it anew") {
    return Error{Errc::invalid_data, dataset_folder_text(folder), std::move(happened), std::move(remedy)};
  };
  if (!manifest.is_complete) throw refuse("it is not complete: whoever wrote it was interrupted");
  std::vector<Column> columns;
  for (auto const& entry : manifest.columns) {
    auto const is_inside = !entry.file.empty() && entry.file.find('/') == std::string::npos;
    if (!is_inside) throw refuse(fmt::format("column '{}' would be outside of it: '{}'", entry.name, entry.file));
    auto const column = map_npy(folder / entry.file, {.column = entry.name}).column(entry.name);
    if (column.rows() != manifest.rows) {
      throw refuse(fmt::format("column '{}' has {} rows in place of {}", entry.name, column.rows(), manifest.rows));
    }
    if (!entry.categories) {
      columns.push_back(column);
      continue;
    }
    auto const categories = std::make_shared<std::vector<std::string> const>(*entry.categories);
    auto const is_code = [last = static_cast<std::int64_t>(categories->size()) - 1](std::int32_t code) {
      return code >= -1 && code <= last;
    };
    if (column.type() != ElementType::int32 || !column.row_shape().empty() ||
        !std::ranges::is_sorted(*categories, std::ranges::less_equal{}) ||
        !std::ranges::all_of(column.as<std::int32_t>(), is_code)) {
      throw refuse(fmt::format("column '{}' has other codes than texts", entry.name));
    }
    auto format = column.format();
    format.categories = categories;
    auto const owner = std::make_shared<Column const>(column);
    columns.emplace_back(std::move(format), std::shared_ptr<std::byte const>{owner, owner->bytes().data()},
                         column.rows());
  }
  if (columns.empty()) throw refuse("it has no column");
  return Dataset::from_columns(std::move(columns));
}

}  // namespace raytrain::detail
