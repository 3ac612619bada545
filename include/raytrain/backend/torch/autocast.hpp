// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <raytrain/backend/torch/detail/autocast_state.hpp>

namespace raytrain {

/// In what a model's operations compute. Parameters, their gradients and the optimizer's state are float in each.
enum class Precision : std::uint8_t {
  fp32,
  bf16,  ///< 8 bits of exponent, as of float, and 8 of the number.
  fp16,  ///< 5 bits of exponent: small gradients become 0 without a `GradScaler`.
};

[[nodiscard]] auto to_string(Precision precision) noexcept -> std::string_view;

/// "fp32", "bf16" or "fp16", as of a command line.
///
/// Errors: `invalid_config` for another text, listing these.
[[nodiscard]] auto precision_named(std::string_view name) -> Precision;

/// While it lives, this thread's matrix products and convolutions on the device compute with 16 bits, losses with
/// float, and other operations in the type of what they are given. What `TorchContext::autocast` makes.
///
///     auto const loss = [&] {
///       auto const autocast = ctx.autocast(raytrain::Precision::bf16);
///       return torch::nll_loss(model->forward(images), labels);
///     }();
///     loss.backward();
///
/// It covers forward and loss; backward follows in the types that these had. One within another counts alone, also with
/// `fp32`, and leaves the outer one's settings. Each operation converts the parameters as they are then: LibTorch's
/// cache of converted ones, which a step of the optimizer within it would make stale, is off.
///
/// Errors: `invalid_config` for `fp16` where this LibTorch cannot do it on the device.
/// Source: P. Micikevicius et al., "Mixed Precision Training", ICLR 2018; LibTorch's autocast.
class [[nodiscard]] Autocast {
 public:
  Autocast(Precision precision, torch::Device device);
  ~Autocast() { former_.put_in_place(); }
  Autocast(Autocast const&) = delete;
  auto operator=(Autocast const&) -> Autocast& = delete;

 private:
  detail::AutocastState former_;
};

/// Whether the device has instructions for it, for the CPU the processor; unset where this is not known, as of GPUs.
[[nodiscard]] auto computes_in(Precision precision, torch::Device device = torch::kCPU) -> std::optional<bool>;

/// What to know of a precision that the processor has no instructions for; nothing where it has them.
[[nodiscard]] auto precision_advice(Precision precision, std::optional<bool> has_instructions)
    -> std::optional<std::string>;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/autocast-inl.hpp>
#endif
