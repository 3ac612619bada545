// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/checkpoint/directory_store.hpp>

/// Stages `drafts`, one of each rank, and commits them as the run's `checkpoint`-th.
inline auto commit(raytrain::CheckpointStore& store, std::vector<raytrain::CheckpointDraft> const& drafts,
                   std::uint64_t checkpoint = 0) -> raytrain::Checkpoint {
  using namespace raytrain;
  auto const world = static_cast<std::uint32_t>(drafts.size());
  CommitRequest request{{checkpoint}, checkpoint + 1, 2.5, WorldSize{world}, {{"loss", 0.5}}, {}};
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    request.parts.push_back(store.stage(drafts[rank], Rank{rank}, CheckpointOrdinal{checkpoint}));
  }
  return store.open(store.commit(request));
}

inline auto draft_of(std::map<std::string, std::string> const& files) -> raytrain::CheckpointDraft {
  raytrain::CheckpointDraft draft;
  for (auto const& [name, text] : files) draft.add(name, text);
  return draft;
}

using Skipped = std::vector<std::pair<std::string, std::string>>;

/// The newest valid checkpoint; what was skipped on the way, by the last part of where it lies, goes into `skipped`.
[[nodiscard]] inline auto newest(raytrain::CheckpointStore const& store, Skipped* skipped = nullptr)
    -> std::optional<raytrain::Checkpoint> {
  return store.newest_valid(
      [&](raytrain::CheckpointNumber, std::filesystem::path const& location, std::string_view reason) {
        if (skipped != nullptr) skipped->emplace_back(location.filename().string(), reason);
      });
}

[[nodiscard]] inline auto text_in(raytrain::Checkpoint const& checkpoint, std::string_view name) -> std::string {
  return std::string{raytrain::text_of(checkpoint.read(name))};
}

/// Texts by the names of the files that hold them.
using Contents = std::map<std::string, std::string>;

[[nodiscard]] inline auto contents_of(raytrain::Checkpoint const& checkpoint) -> Contents {
  Contents contents;
  for (auto const& file : checkpoint.files()) contents[file.name] = text_in(checkpoint, file.name);
  return contents;
}
