// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <raytrain/train/result.hpp>

/// The texts of the failures with which `run` ends, a line each; empty when it has none.
template <class Run>
[[nodiscard]] auto failure_texts(Run const& run) -> std::string {
  std::string texts;
  try {
    run();
  } catch (raytrain::TrainingFailed const& failed) {
    for (auto const& failure : failed.failures()) texts += failure.text() + '\n';
  }
  return texts;
}
