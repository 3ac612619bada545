// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/torch.h>

#include <cstdint>

#include <raytrain/backend/torch/detail/own_default_generator.hpp>

namespace raytrain::detail {

/// While it lives, tensor operations of the calling thread use one thread, as far as they use OpenMP, and the thread
/// has a default generator of its own.
///
/// Threads: one that ends with it.
class BatchThread {
 public:
  BatchThread();

 private:
  OwnDefaultGenerator generator_{0};
};

/// While it lives, what the calling thread draws follows from `seed`, and tensors are computed without gradients and
/// without autocast. Then the default generator goes on where it was.
class BatchScope {
 public:
  explicit BatchScope(std::uint64_t seed);
  BatchScope(BatchScope const&) = delete;
  auto operator=(BatchScope const&) -> BatchScope& = delete;
  ~BatchScope();

  /// The default generator.
  [[nodiscard]] auto generator() noexcept -> at::Generator& { return generator_; }

 private:
  at::Generator generator_;
  at::Tensor before_;
  torch::NoGradGuard no_grad_;
  c10::impl::ExcludeDispatchKeyGuard no_autocast_{c10::autocast_dispatch_keyset};
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/batch_thread-inl.hpp>
#endif
