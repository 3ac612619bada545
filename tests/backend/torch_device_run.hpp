// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <raytrain/backend/torch.hpp>
#include <raytrain/backend/torch/detail/worker_device.hpp>

#include "pretended_device.hpp"

/// While it lives, workers that ask for GPUs train on a pretended device.
struct PretendedDevice {
  PretendedDevice() { raytrain::detail::Devices::pretend(1, pretended_device::type); }
  PretendedDevice(PretendedDevice const&) = delete;
  auto operator=(PretendedDevice const&) -> PretendedDevice& = delete;
  ~PretendedDevice() { raytrain::detail::Devices::pretend(0); }
};

/// Of a prepared one.
auto loss_of(auto& model, raytrain::TorchBatch const& batch) -> torch::Tensor {
  return torch::nll_loss(model(batch["image"].to(torch::kFloat).flatten(1) / 255), batch["label"].to(torch::kLong));
}
