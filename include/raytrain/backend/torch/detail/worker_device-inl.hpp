// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <torch/cuda.h>
#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <c10/core/AutogradState.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <raytrain/backend/torch/detail/device_arrays.hpp>
#include <raytrain/backend/torch/detail/memory_share.hpp>
#include <raytrain/backend/torch/detail/nccl_arrays.hpp>
#include <raytrain/backend/torch/detail/nccl_library.hpp>
#include <raytrain/backend/torch/detail/worker_device.hpp>
#include <raytrain/backend/torch/gpu_advice.hpp>
#include <raytrain/backend/torch/torch_config.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/device_share.hpp>
#include <raytrain/launch/gpu_driver.hpp>
#include <raytrain/launch/worker_link.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain::detail {

/// What tests pretend that there is.
RAYTRAIN_TORCH_INLINE auto pretended_devices() noexcept -> std::atomic<Devices>& {
  static std::atomic<Devices> devices{};
  return devices;
}

RAYTRAIN_TORCH_INLINE auto Devices::here() -> Devices {
  if (auto const pretended = pretended_devices().load(); pretended.count > 0) return pretended;
  return {at::kCUDA, static_cast<int>(torch::cuda::device_count())};
}

RAYTRAIN_TORCH_INLINE void Devices::pretend(int count, at::DeviceType type) { pretended_devices() = {type, count}; }

RAYTRAIN_TORCH_INLINE auto Devices::names() -> std::vector<std::string> {
  if (auto const pretended = pretended_devices().load(); pretended.count > 0) {
    return {static_cast<std::size_t>(pretended.count), "a pretended one"};
  }
  std::vector<std::string> names;
  for (auto const& gpu : GpuDriver::ask().gpus) names.push_back(gpu.name);
  return names;
}

/// What can make backwards run in the thread that calls them, on GPUs too: LibTorch's state since version 2.0.
template <class State>
concept RunsBackwardsHere = requires(State& state) {
  state.set_multithreading_enabled(true);
};

RAYTRAIN_TORCH_INLINE void run_backwards_here(bool here) {
  auto const set = [here](auto& state) {
    if constexpr (RunsBackwardsHere<decltype(state)>) state.set_multithreading_enabled(!here);
  };
  set(c10::AutogradState::get_tls_state());
}

RAYTRAIN_TORCH_INLINE void check_devices(ScalingConfig const& scaling) {
  auto const [type, count] = Devices::here();
  constexpr auto attempted = "ScalingConfig::use_gpu";
  if (scaling.virtual_shards > 0) {
    throw Error{Errc::invalid_config, attempted,
                fmt::format("is set in a run of {} virtual shards, whose bits depend on no number of workers, for "
                            "which a GPU's sums are not made",
                            scaling.virtual_shards),
                "leave one of them out"};
  }
  if (count == 0) {
    refuse_use_gpu(gpu_problem(read_gpu_facts())
                       .value_or(GpuProblem{"the driver has GPUs, and LibTorch finds none",
                                            "see what python3 -c 'import torch; torch.cuda.init()' says"}));
  }
  if (type == at::kCUDA && !RunsBackwardsHere<c10::AutogradState>) {
    throw Error{
        Errc::invalid_config, attempted,
        fmt::format("is set, and LibTorch {}.{} runs the backwards of all workers on a GPU in one thread, where "
                    "they would wait for each other",
                    TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR),
        "use LibTorch 2.0 or newer"};
  }
  (void)share_devices(expected_claim(scaling), {.count = count, .names = Devices::names()});
}

RAYTRAIN_TORCH_INLINE auto WorkerDevice::make_arrays(Options const& options) -> std::unique_ptr<DeviceArrays> {
  auto& link = options.link;
  auto way = options.exchange;
  auto const& placement = link.placement();
  auto const workers = placement.world_size;
  auto const shares_one = share_.workers == workers.value && placement.process_workers == workers;
  auto const* const nccl = NcclLibrary::of_process();
  auto const lacks =
      share_.workers > 1
          ? "several workers share a GPU"
          : "there is no NCCL 2.18 or newer in the program, nor libnccl.so.2, or LibTorch is too old for it";
  auto const may_use_nccl = share_.workers == 1 && nccl != nullptr && tells_native_streams;
  // All or none: NCCL may be missing on one host, and the last worker may have a GPU alone.
  std::vector<std::uint8_t> can{static_cast<std::uint8_t>(may_use_nccl ? 1 : 0)};
  collective_.all_reduce(can, ReduceOp::min);
  if (way == GpuExchange::automatic) {
    way = shares_one ? GpuExchange::shared_device : can[0] == 1 ? GpuExchange::nccl : GpuExchange::cpu;
  }
  auto const refuse = [](std::string happened, char const* remedy) {
    throw Error{Errc::invalid_config, "TorchConfig::gpu_exchange", std::move(happened), remedy};
  };
  if (way == GpuExchange::shared_device && !shares_one) {
    refuse("is shared_device, and the workers are not threads of one process on one GPU",
           "leave it out, or run all workers as threads that share a GPU: .resources_per_worker = {.gpus = 0.5}");
  }
  if (way == GpuExchange::nccl && can[0] == 0) {
    refuse(fmt::format("is nccl, and {}", may_use_nccl ? "another worker cannot use it" : lacks),
           "leave it out, or give each worker a GPU of its own, with NCCL installed on every host");
  }
  std::shared_ptr<Collective> through_memory{std::shared_ptr<void>{}, &collective_};  // it lives longer
  if (way == GpuExchange::shared_device)
    return std::make_unique<SharedDeviceArrays>(std::move(through_memory), device());
  if (way == GpuExchange::cpu) return std::make_unique<ArraysThroughMemory>(std::move(through_memory), device());
  return std::make_unique<NcclArrays>(
      NcclArrays::Options{.library = *nccl,
                          .through_memory = std::move(through_memory),
                          .device = device(),
                          .limits = {.timeout = options.collective_timeout,
                                     .on_warning = [&link](std::string const& text) { link.send(Warning{text}); }},
                          .stop = link.stop_token(),
                          .abort = link.aborted()});
}

RAYTRAIN_TORCH_INLINE WorkerDevice::WorkerDevice(Options const& options) : collective_{options.collective} {
  if (!options.scaling.use_gpu) return;
  choose(options.scaling, options.link.placement());
  if (type_ != at::kCPU) {
    take_memory_share(options.link);
    c10::impl::VirtualGuardImpl const guard{type_};
    former_device_ = guard.exchangeDevice(device());
    if (share_.workers > 1) former_stream_ = guard.exchangeStream(guard.getStreamFromGlobalPool(device()));
    run_backwards_here(true);
  }
  try {
    arrays_ = make_arrays(options);
  } catch (...) {
    leave();
    throw;
  }
}

RAYTRAIN_TORCH_INLINE void WorkerDevice::choose(ScalingConfig const& scaling, Placement const& placement) {
  auto const [type, count] = Devices::here();
  type_ = type;
  share_ = share_devices(own_claim(scaling, collective_, placement), {.count = count, .names = Devices::names()});
  if (type_ != at::kCPU) check_accelerator(scaling, placement.world_rank, share_);
}

RAYTRAIN_TORCH_INLINE void WorkerDevice::take_memory_share(WorkerLink& link) const {
  auto const& placement = link.placement();
  auto const fraction = memory_fraction(share_, placement.process_workers);
  if (!fraction) return;
  auto const warning = limit_memory(*fraction, MemoryLimiter::of_libtorch());
  if (warning && placement.local_rank == Rank{0}) link.send(Warning{*warning});  // the same for all of the host
}

RAYTRAIN_TORCH_INLINE WorkerDevice::~WorkerDevice() {
  arrays_.reset();
  leave();
}

RAYTRAIN_TORCH_INLINE void WorkerDevice::leave() noexcept {
  if (!former_device_) return;
  c10::impl::VirtualGuardImpl const guard{type_};
  if (former_stream_) {
    auto const own = guard.exchangeStream(*former_stream_);
    try {
      own.synchronize();  // what the program takes out of the training is complete on any stream
    } catch (...) {       // what is wrong with the GPU, its next user is told
    }
  }
  guard.uncheckedSetDevice(*former_device_);
  run_backwards_here(false);
}

RAYTRAIN_TORCH_INLINE auto WorkerDevice::devices() const -> std::vector<at::Device> {
  std::vector<at::Device> all;
  for (std::size_t i = 0; i < std::max<std::size_t>(1, share_.devices.size()); ++i) all.push_back(index_of(i));
  return all;
}

RAYTRAIN_TORCH_INLINE auto WorkerDevice::gpu() const noexcept -> std::optional<at::Device> {
  if (type_ == at::kCPU) return std::nullopt;
  return device();
}

}  // namespace raytrain::detail
