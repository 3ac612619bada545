// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/Exception.h>
#include <torch/torch.h>

#include <memory>
#include <stdexcept>
#include <string_view>

#include <raytrain/backend/backend.hpp>
#include <raytrain/backend/torch/activation_checkpoint.hpp>
#include <raytrain/backend/torch/autocast.hpp>
#include <raytrain/backend/torch/averaged_model.hpp>
#include <raytrain/backend/torch/cpu_advice.hpp>
#include <raytrain/backend/torch/detail/freed_memory.hpp>
#include <raytrain/backend/torch/diloco.hpp>
#include <raytrain/backend/torch/gpu_advice.hpp>
#include <raytrain/backend/torch/grad_scaler.hpp>
#include <raytrain/backend/torch/gradient_exchange.hpp>
#include <raytrain/backend/torch/load_model.hpp>
#include <raytrain/backend/torch/lr_schedule.hpp>
#include <raytrain/backend/torch/model_options.hpp>
#include <raytrain/backend/torch/optimizers.hpp>
#include <raytrain/backend/torch/power_sgd.hpp>
#include <raytrain/backend/torch/sync_batch_norm.hpp>
#include <raytrain/backend/torch/torch_config.hpp>
#include <raytrain/backend/torch/torch_context.hpp>
#include <raytrain/backend/torch/training_state.hpp>
#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/launch/gpu_driver.hpp>
#include <raytrain/train/early_stopping.hpp>
#include <raytrain/train/worker_setup.hpp>

namespace raytrain {

/// LibTorch trains: models, gradients and batches are its own.
///
/// Source: data-parallel training with averaged gradients, as in S. Li et al., "PyTorch Distributed: Experiences on
///         Accelerating Data Parallel Training", VLDB 2020.
class TorchBackend {
 public:
  using Config = TorchConfig;
  using Context = TorchContext;

  static constexpr std::string_view name = "torch";
  static constexpr Launch default_launch = Launch::threads;

  explicit TorchBackend(TorchConfig const& config) : config_{config} {}

  /// Errors: as `detail::check_devices`, with `ScalingConfig::use_gpu`.
  void on_start(ScalingConfig const& scaling);

  auto make_context(WorkerSetup setup) const -> TorchContext;

  /// Calls the training function. What LibTorch throws in it loses the stack of frames that it carries in its text.
  ///
  /// Errors: as `out_of_gpu_memory`.
  template <class F>
  void call(F const& training) const {
    try {
      training();
    } catch (c10::OutOfMemoryError const& error) {
      throw out_of_gpu_memory("training", error.what_without_backtrace(), gpu_memory());
    } catch (c10::Error const& error) {
      throw std::runtime_error{error.what_without_backtrace()};
    }
  }

  // Threads that a worker's operations used would otherwise become the default of all threads made later.
  void on_shutdown() noexcept {
    at::set_num_threads(threads_before_);
    freed_memory_stays_.reset();
  }

 private:
  TorchConfig config_;
  ScalingConfig scaling_;
  int threads_before_ = 1;
  std::unique_ptr<detail::FreedMemoryStays> freed_memory_stays_;  ///< While workers train, where it is asked for.
};

static_assert(CallingBackend<TorchBackend>);

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch-inl.hpp>
#endif
