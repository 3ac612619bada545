// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
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

  void expect(BlockTurns const& turns) { turns_ = turns; }

  [[nodiscard]] auto next() -> std::optional<Dataset> { return first_of(options_.next); }

  [[nodiscard]] auto skip() -> bool { return options_.skip ? first_of(options_.skip) : next().has_value(); }

 private:
  /// Of what `work` gives of a file, and the files behind it, the first that is not false. What is wrong in a file that
  /// was changed meanwhile is that it was changed.
  template <class Result>
  auto first_of(std::function<Result()> const& work) -> Result {
    for (; at_ < files_.size(); ++at_, is_open_ = false) {
      auto const& file = files_[at_];
      if (!is_open_) file.check();
      Result result{};
      try {
        if (!std::exchange(is_open_, true)) options_.open(file.path(), {options_.rows, turns_.behind(blocks_)});
        result = work();
      } catch (Error const&) {
        file.check();
        throw;
      }
      file.check();
      if (!result) continue;
      ++blocks_;
      return result;
    }
    if (options_.finish) options_.finish();
    return {};
  }

  std::vector<FileState> files_;
  FileBlocksOptions options_;
  BlockTurns turns_{};
  std::uint64_t blocks_ = 0;  ///< Taken or passed over.
  std::size_t at_ = 0;
  bool is_open_ = false;
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
  auto const blocks = std::make_shared<BlocksOfFiles>(std::move(files), std::move(options));
  return {std::move(source),
          [blocks] { return blocks->next(); },
          {.check = std::move(check),
           .skip = [blocks] { return blocks->skip(); },
           .expect = [blocks](BlockTurns const& turns) { blocks->expect(turns); }}};
}

}  // namespace raytrain::detail
