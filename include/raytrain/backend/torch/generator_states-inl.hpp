// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>

#include <raytrain/backend/torch/generator_states.hpp>
#include <raytrain/backend/torch/torch_call.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_TORCH_INLINE auto default_generator_state() -> at::Tensor {
  auto generator = at::detail::getDefaultCPUGenerator();
  std::scoped_lock const lock{generator.mutex()};
  return generator.get_state();
}

RAYTRAIN_TORCH_INLINE void set_default_generator_state(at::Tensor const& state) {
  auto generator = at::detail::getDefaultCPUGenerator();
  std::scoped_lock const lock{generator.mutex()};
  generator.set_state(state);
}

RAYTRAIN_TORCH_INLINE auto generators_to_bytes(at::Generator const& own) -> Bytes {
  Bytes bytes;
  for (auto const& state : {own.get_state(), default_generator_state()}) {
    auto const* const first = static_cast<std::byte const*>(state.data_ptr());
    bytes.insert(bytes.end(), first, first + state.nbytes());
  }
  return bytes;
}

RAYTRAIN_TORCH_INLINE void generators_from_bytes(BytesView bytes, at::Generator& own) {
  auto const state_in = [](BytesView half) {
    auto state = torch::empty({static_cast<std::int64_t>(half.size())}, torch::kByte);
    std::memcpy(state.data_ptr(), half.data(), half.size());
    return state;
  };
  torch_call("loading the states of random numbers", [&] {
    own.set_state(state_in(bytes.first(bytes.size() / 2)));
    set_default_generator_state(state_in(bytes.subspan(bytes.size() / 2)));
  });
}

}  // namespace raytrain::detail
