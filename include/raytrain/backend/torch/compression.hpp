// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include <raytrain/backend/torch/gradient_exchange.hpp>

namespace raytrain {

/// In what gradients travel between workers.
enum class Compression : std::uint8_t {
  none,
  bf16,  ///< The range of float, and 8 significant bits.
  fp16,  ///< 11 significant bits, up to 65504: a larger gradient becomes infinite, one below 3e-8 becomes 0.
};

[[nodiscard]] auto to_string(Compression compression) noexcept -> std::string_view;

/// "none", "bf16" or "fp16", as of a command line.
///
/// Errors: `invalid_config` for another text, listing these.
[[nodiscard]] auto compression_named(std::string_view name) -> Compression;

/// For `ModelOptions::exchange`: gradients travel in 16 bits, half the bytes of float. Null for `Compression::none`.
///
///     auto const exchange = raytrain::compressed(raytrain::Compression::bf16);
///     auto model = ctx.prepare_model([] { return Net{}; }, {.exchange = exchange});
///
/// Each worker's gradients are rounded to 16 bits, averaged in float in rank order, and the average is rounded once
/// more, so that every worker has the same bits, whatever the launch. A value that is not finite on one worker stays so
/// on all, and a `GradScaler` leaves the step out; with `fp16` take one, since values above its range become infinite.
///
/// Cost:   sums of float cross the network once for each host, those of 16 bits once for each worker: it pays on a slow
///         network between hosts of one worker each, and not within a host.
/// Source: bf16_compress_hook and fp16_compress_hook of PyTorch.
[[nodiscard]] auto compressed(Compression compression) -> std::shared_ptr<GradientExchange>;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/compression-inl.hpp>
#endif
