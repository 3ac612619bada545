// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <raytrain/core/bytes.hpp>

namespace raytrain::detail {

/// State of LibTorch's default generator, which all threads of a process share.
[[nodiscard]] auto default_generator_state() -> at::Tensor;

void set_default_generator_state(at::Tensor const& state);

/// The states of a worker's own generator and of the default one, which are equally long.
[[nodiscard]] auto generators_to_bytes(at::Generator const& own) -> Bytes;

/// Errors: `backend` for bytes that `generators_to_bytes` of this LibTorch does not give.
void generators_from_bytes(BytesView bytes, at::Generator& own);

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/generator_states-inl.hpp>
#endif
