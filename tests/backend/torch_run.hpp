// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/backend/torch.hpp>
#include <raytrain/backend/torch/detail/worker_device.hpp>
#include <raytrain/config/scaling_config.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/trainer.hpp>

#include "../support/temporary_folder.hpp"

using raytrain::testing::TemporaryFolder;

struct Epoch {
  int epoch;
  double loss;
  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(epoch), CEREAL_NVP(loss));
  }
};

struct RunSetup {
  int workers = 2;
  std::uint64_t seed = 1;
  raytrain::Datasets datasets{};
  int cpus = 0;
  raytrain::CheckpointSource begins_with{};
};

using TrainTorch = std::function<void(raytrain::TorchContext&)>;

/// So many workers; where RAYTRAIN_TEST_PRETENDED_GPU is set as if they shared a GPU, whose memory is the host's.
[[nodiscard]] inline auto scaling_of(RunSetup const& setup) -> raytrain::ScalingConfig {
  raytrain::ScalingConfig scaling{.num_workers = setup.workers, .resources_per_worker = {.cpus = setup.cpus}};
  if (std::getenv("RAYTRAIN_TEST_PRETENDED_GPU") != nullptr) {
    raytrain::detail::Devices::pretend(1);
    scaling.use_gpu = true;
    scaling.resources_per_worker.gpus = 1.0 / setup.workers;
  }
  return scaling;
}

/// Trains in `folder`, going on with what lies there.
inline auto run_in(std::filesystem::path const& folder, RunSetup const& setup, TrainTorch const& train)
    -> raytrain::Result {
  raytrain::Trainer<raytrain::TorchBackend> trainer{train,
                                                    {.scaling = scaling_of(setup),
                                                     .run = {.name = "run",
                                                             .storage_path = folder,
                                                             .resume_from_checkpoint = setup.begins_with,
                                                             .seed = setup.seed,
                                                             .handle_signals = false},
                                                     .datasets = setup.datasets}};
  return trainer.fit();
}

/// Trains from the beginning, and leaves nothing behind.
inline auto run_once(RunSetup const& setup, TrainTorch const& train) -> raytrain::Result {
  TemporaryFolder const folder;
  return run_in(folder.path(), setup, train);
}

/// Others, such as of a slow BLAS, depend on the machine.
[[nodiscard]] inline auto warnings_with(raytrain::Result const& result, std::string const& part) -> std::ptrdiff_t {
  return std::ranges::count_if(result.warnings,
                               [&](std::string const& text) { return text.find(part) != std::string::npos; });
}

using Tensors = std::vector<torch::Tensor>;

[[nodiscard]] inline auto copies(Tensors const& tensors) -> Tensors {
  torch::NoGradGuard const no_grad;
  Tensors result;
  for (auto const& tensor : tensors) result.push_back(tensor.detach().clone());
  return result;
}

/// Bit by bit.
[[nodiscard]] inline auto same_bits(Tensors const& left, Tensors const& right) -> bool {
  if (left.size() != right.size()) return false;
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (!torch::equal(left[i], right[i])) return false;
  }
  return true;
}

/// Rows of 8 x 8 pixels whose labels follow from their pixels, from a fixed seed.
[[nodiscard]] inline auto small_images(std::size_t rows) -> raytrain::Dataset {
  std::uint32_t state = 12345;
  std::vector<std::uint8_t> pixels(rows * 64);
  std::vector<std::uint8_t> labels(rows);
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    state = state * 1664525 + 1013904223;
    pixels[i] = static_cast<std::uint8_t>(state >> 24);
  }
  for (std::size_t row = 0; row < rows; ++row) labels[row] = pixels[row * 64 + 9] / 26;
  return raytrain::Dataset::from_columns({{"image", std::move(pixels), {8, 8}}, {"label", std::move(labels)}});
}
