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

/// For small images, with statistics of batches, a part that nothing uses, and a frozen one.
struct DeviceNetImpl : torch::nn::Module {
  DeviceNetImpl() : first{64, 32}, norm{32}, last{32, 10}, unused{3, 3} {
    register_module("first", first);
    register_module("norm", norm);
    register_module("last", last);
    register_module("unused", unused);
    frozen = register_parameter("frozen", torch::ones({10}), false);
  }
  auto forward(torch::Tensor const& x) -> torch::Tensor {
    return torch::log_softmax(last(torch::relu(norm(first(x)))) * frozen, 1);
  }
  torch::nn::Linear first;
  torch::nn::BatchNorm1d norm;
  torch::nn::Linear last, unused;
  torch::Tensor frozen;
};
TORCH_MODULE(DeviceNet);

/// Of a prepared one.
auto loss_of(auto& model, raytrain::TorchBatch const& batch) -> torch::Tensor {
  return torch::nll_loss(model(batch["image"].to(torch::kFloat).flatten(1) / 255), batch["label"].to(torch::kLong));
}
