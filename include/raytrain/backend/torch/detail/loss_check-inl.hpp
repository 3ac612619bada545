// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <torch/torch.h>

#include <bit>
#include <cmath>
#include <optional>
#include <string>

#include <raytrain/backend/torch/detail/loss_check.hpp>
#include <raytrain/backend/torch/detail/worker_step.hpp>
#include <raytrain/backend/torch/non_finite.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_TORCH_INLINE auto LossCheck::check(at::Tensor const& loss, NonFinite then, Rank rank,
                                            WorkerStep const& worker_step) -> std::optional<std::string> {
  constexpr auto attempted = "checking a loss";
  if (!loss.defined() || loss.numel() != 1) {
    throw Error{Errc::invalid_call, attempted,
                fmt::format("it must be one number (got {})", loss.defined() ? loss.numel() : 0),
                "give the loss that backward() is called on"};
  }
  ++checked_;
  auto const value = loss.item<double>();
  if (std::isfinite(value)) return std::nullopt;
  ++not_finite_;
  auto const& position = worker_step.position;
  auto const after = worker_step.turn ? fmt::format(" (after {} samples of epoch {})", position.samples, position.epoch)
                                      : std::string{};
  auto const happened = fmt::format("the loss of rank {} is {} in its check {}{}", rank.value, value, checked_, after);
  auto const remedy =
      "look for the operation that makes it, with torch::autograd::DetectAnomalyGuard, or take a lower "
      "learning rate";
  if (then == NonFinite::stop) throw NotRetryable{attempted, happened, remedy};
  if (!std::has_single_bit(not_finite_)) return std::nullopt;
  return fmt::format("{}, one of {} so far that are not finite, and training goes on; {}", happened, not_finite_,
                     remedy);
}

}  // namespace raytrain::detail
