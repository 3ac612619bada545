// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fstream>
#include <string>

#include <raytrain/backend/torch/training_state.hpp>
#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/core/bytes.hpp>

#include "../support/temporary_folder.hpp"

/// What `save` gives on rank 0.
[[nodiscard]] auto draft_of(auto const&... state) -> raytrain::CheckpointDraft {
  auto draft = raytrain::save(state...);
  draft.fill(raytrain::Rank{0});
  return draft;
}

/// What `save` gives, in a directory of a user's.
class Stored {
 public:
  template <class... S>
  explicit Stored(S const&... state) : Stored{draft_of(state...)} {}
  explicit Stored(raytrain::CheckpointDraft const& draft) {
    for (auto const& [name, content] : draft.files()) {
      std::ofstream{folder_.path() / name, std::ios::binary} << raytrain::text_of(content.view());
    }
  }
  [[nodiscard]] auto checkpoint() const -> raytrain::Checkpoint {
    return raytrain::Checkpoint::from_directory(folder_.path());
  }
  [[nodiscard]] auto names() const -> std::string {
    std::string names;
    for (auto const& file : checkpoint().files()) names += file.name + " ";
    return names;
  }

 private:
  raytrain::testing::TemporaryFolder folder_;
};
