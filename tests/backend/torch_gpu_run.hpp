// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/cuda.h>
#include <torch/torch.h>

#include <raytrain/backend/torch/detail/worker_device.hpp>
#include <raytrain/config/scaling_config.hpp>

/// Whether tests run on a GPU. Others pretend that there are some.
[[nodiscard]] inline auto has_real_gpu() -> bool { return torch::cuda::is_available(); }

/// While it lives there are GPUs: real ones, or so many pretended ones.
struct Gpus {
  explicit Gpus(int pretended = 1) {
    if (!has_real_gpu()) raytrain::detail::Devices::pretend(pretended);
  }
  Gpus(Gpus const&) = delete;
  auto operator=(Gpus const&) -> Gpus& = delete;
  ~Gpus() { raytrain::detail::Devices::pretend(0); }
};

/// Threads that all share one GPU, or as many on the CPU.
[[nodiscard]] inline auto gpu_scaling(int workers, bool on_gpu) -> raytrain::ScalingConfig {
  if (!on_gpu) return {.num_workers = workers};
  return {.num_workers = workers, .resources_per_worker = {.gpus = 1.0 / workers}, .use_gpu = true};
}

/// For small images, with statistics of batches, a part that nothing uses, and a frozen one.
struct GpuNetImpl : torch::nn::Module {
  GpuNetImpl() : first{64, 32}, norm{32}, last{32, 10}, unused{3, 3} {
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
TORCH_MODULE(GpuNet);
