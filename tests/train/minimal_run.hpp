// SPDX-License-Identifier: Apache-2.0
// What tests of whole runs share: a trainer without a framework, and training functions for it.
#pragma once

#include <exception>
#include <string>

#include <doctest/doctest.h>
#include <cereal/cereal.hpp>

#include <raytrain/testing/minimal_backend.hpp>
#include <raytrain/trainer.hpp>

#include "../support/temporary_folder.hpp"

using raytrain::testing::TemporaryFolder;

using namespace raytrain;
using testing::MinimalBackend;
using MinimalTrainer = Trainer<MinimalBackend>;
using MinimalConfig = TrainerConfig<MinimalBackend>;

struct Epoch {
  int epoch = 0;
  double loss = 0;
  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(epoch), CEREAL_NVP(loss));
  }
};

inline auto draft(std::string const& text) -> CheckpointDraft {
  CheckpointDraft result;
  auto const bytes = bytes_of(text);
  result.add("state.txt", Bytes{bytes.begin(), bytes.end()});
  return result;
}

inline auto text_in(Checkpoint const& checkpoint) -> std::string {
  return std::string{text_of(checkpoint.read("state.txt"))};
}

// Epochs up to `epochs`, each with a checkpoint by rank 0 that holds its number.
inline auto epochs_up_to(int epochs) {
  return [epochs](TrainContext& ctx) {
    auto first = ctx.checkpoint() ? std::stoi(text_in(*ctx.checkpoint())) + 1 : 0;
    for (auto epoch = first; epoch < epochs; ++epoch) {
      ctx.barrier();
      if (ctx.stop_requested()) return;
      ctx.report(Epoch{epoch, 1.0 / (epoch + 1)},
                 ctx.world_rank() == Rank{0} ? draft(std::to_string(epoch)) : CheckpointDraft{});
    }
  };
}

template <class F>
auto message_of(F const& function) -> std::string {
  try {
    function();
  } catch (std::exception const& error) {
    return error.what();
  }
  return "(nothing was thrown)";
}

inline auto contains(std::string const& text, std::string const& part) -> bool {
  INFO(text);
  auto const found = text.find(part) != std::string::npos;
  CHECK_MESSAGE(found, "looked for: ", part);
  return found;
}
