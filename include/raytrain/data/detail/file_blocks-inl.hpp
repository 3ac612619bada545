// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/utf8.hpp>
#include <raytrain/core/xxh3.hpp>
#include <raytrain/data/data_paths.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/dataset_blocks.hpp>
#include <raytrain/data/detail/file_blocks.hpp>
#include <raytrain/data/detail/file_state.hpp>
#include <raytrain/message/json.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto exact_text(std::string const& name) -> std::string {
  return is_utf8(name) ? json_string(name) : json_string(name) + " of the bytes " + xxh3_of(bytes_of(name));
}

/// The files, and where in them the next block is.
class BlocksOfFiles {
 public:
  BlocksOfFiles(std::vector<FileState> files, FileBlocksOptions options)
      : files_{std::move(files)}, options_{std::move(options)} {}

  [[nodiscard]] auto next() -> std::optional<Dataset> { return first_of(options_.next); }

  [[nodiscard]] auto skip() -> bool { return options_.skip ? first_of(options_.skip) : next().has_value(); }

 private:
  /// Of what `work` gives of a file, and the files behind it, the first that is not false. What is wrong in a file that
  /// was changed meanwhile is that it was changed.
  template <class Result>
  auto first_of(std::function<Result(std::filesystem::path const& path, bool begins)> const& work) -> Result {
    for (; at_ < files_.size(); ++at_, begins_ = true) {
      auto const& file = files_[at_];
      if (begins_) file.check();
      Result result{};
      try {
        result = work(file.path(), std::exchange(begins_, false));
      } catch (Error const&) {
        file.check();
        throw;
      }
      file.check();
      if (result) return result;
    }
    if (options_.finish) options_.finish();
    return {};
  }

  std::vector<FileState> files_;
  FileBlocksOptions options_;
  std::size_t at_ = 0;
  bool begins_ = true;  ///< No block of the file was asked for.
};

RAYTRAIN_INLINE auto file_blocks(DataPaths const& paths, FileBlocksOptions options) -> DatasetBlocks {
  if (options.rows == 0) {
    throw Error{Errc::invalid_call, options.function, "blocks of 0 rows", "write 65'536, or any other number"};
  }
  std::vector<FileState> files;
  for (auto const& path : paths.files()) files.emplace_back(path);
  auto source = fmt::format("{} in blocks of {} rows, {}", options.format, options.rows, files_text(files));
  auto check = [files] {
    for (auto const& file : files) file.check();
  };
  auto expect = std::move(options.expect);
  auto const blocks = std::make_shared<BlocksOfFiles>(std::move(files), std::move(options));
  return {std::move(source),
          [blocks] { return blocks->next(); },
          {.check = std::move(check), .skip = [blocks] { return blocks->skip(); }, .expect = std::move(expect)}};
}

}  // namespace raytrain::detail
