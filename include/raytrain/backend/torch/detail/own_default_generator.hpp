// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/DispatchKey.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/torch.h>

#include <cstdint>
#include <optional>

namespace raytrain::detail {

/// Stands in for LibTorch's default generator on one thread: what that thread draws without naming a generator, as
/// dropout does, comes from this one. LibTorch's own is one for all threads of the process, so that it depends on the
/// other ones' timing who gets which of its numbers.
///
/// LibTorch sends each operation through its dispatcher, by keys that each thread sets for itself. The operations that
/// take a generator get a kernel for one of these keys, which fills in this one where there is none; others pass that
/// key by, at no cost. `torch::manual_seed` still seeds LibTorch's own.
///
/// With a GPU it has another generator, for that one. Dropout and attention on a GPU take no generator: for each call
/// LibTorch's default one of the GPU gets this one's state, one thread at a time, and has its own again afterwards.
/// What a thread without one of these draws there meanwhile changes what this one gives.
///
/// Threads: the one that has made it, which destroys it; none at a time, or one.
/// Cost:    3 ms once in a process; 0.2 us for each operation that draws.
class OwnDefaultGenerator {
 public:
  /// `device`: a GPU, for which it stands in, too. Errors: `c10::Error` for one that is not there.
  explicit OwnDefaultGenerator(std::uint64_t seed, std::optional<torch::Device> device = std::nullopt);
  OwnDefaultGenerator(OwnDefaultGenerator const&) = delete;
  auto operator=(OwnDefaultGenerator const&) -> OwnDefaultGenerator& = delete;
  ~OwnDefaultGenerator() { of_thread() = nullptr; }

  /// What the first one would do, for threads that begin to have one while others compute.
  static void prepare() { (void)registered_key(); }

  /// The default generator of the calling thread: LibTorch's where none stands in for it.
  [[nodiscard]] static auto current() -> at::Generator;
  /// The same of a device, which may be the CPU.
  [[nodiscard]] static auto current(torch::Device device) -> at::Generator;

  /// While it lives the thread draws from LibTorch's.
  class Pause {
   public:
    Pause() { of_thread() = nullptr; }
    Pause(Pause const&) = delete;
    auto operator=(Pause const&) -> Pause& = delete;
    ~Pause() { of_thread() = before_; }

   private:
    OwnDefaultGenerator* before_ = of_thread();
  };

 private:
  friend struct DrawsFromOwn;
  friend struct DrawsFromDefault;

  /// LibTorch has no other key of a mode that programs may have: it calls this one a testing tool, uses it nowhere, and
  /// every version from 1.13 on has it.
  static constexpr auto key = c10::DispatchKey::TESTING_ONLY_GenericMode;

  /// Once there are kernels for it.
  static auto registered_key() -> c10::DispatchKey;
  static void register_kernels();

  static auto of_thread() noexcept -> OwnDefaultGenerator*&;

  /// Null for a device for which it does not stand in.
  [[nodiscard]] auto of(torch::Device device) const noexcept -> at::Generator const*;

  at::Generator generator_;
  std::optional<at::Generator> of_gpu_;
  c10::impl::IncludeDispatchKeyGuard mode_;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/own_default_generator-inl.hpp>
#endif
