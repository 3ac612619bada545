// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <exception>
#include <utility>

#include <raytrain/backend/torch.hpp>
#include <raytrain/trainer.hpp>

/// What `main` does in a program PROGRAM STORAGE that trains on the ranks of its job: trains once, and says what it
/// throws. Returns the exit status.
template <class Train>
[[nodiscard]] auto train_on_ranks(int argc, char** argv, Train train) -> int try {
  raytrain::Trainer<raytrain::TorchBackend> trainer{
      std::move(train), {.run = {.name = "run", .storage_path = argc > 1 ? argv[1] : "", .handle_signals = false}}};
  return trainer.fit().state == raytrain::RunState::finished ? 0 : 1;
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
