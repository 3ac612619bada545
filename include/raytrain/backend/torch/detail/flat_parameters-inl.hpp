// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include <raytrain/backend/torch/detail/flat_parameters.hpp>
#include <raytrain/backend/torch/detail/tensor_over.hpp>
#include <raytrain/collective/wrapped_collective.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_TORCH_INLINE FlatParameters::FlatParameters(std::vector<Parameter> parameters,
                                                     TaggedCollective const& collective)
    : collective_{collective}, parameters_{std::move(parameters)} {
  torch::NoGradGuard const no_grad;
  for (auto const& parameter : parameters_) {
    auto const type = parameter.tensor.scalar_type();
    if (std::ranges::find(arrays_, type, &Array::type) == arrays_.end()) lay_out(type);
  }
  for (auto& parameter : parameters_) {
    parameter.view.copy_(parameter.tensor);
    parameter.tensor.set_data(parameter.view);
  }
}

RAYTRAIN_TORCH_INLINE void FlatParameters::lay_out(at::ScalarType type) {
  std::int64_t size = 0;
  for (auto& parameter : parameters_) {
    if (parameter.tensor.scalar_type() != type) continue;
    parameter.array = arrays_.size();
    parameter.begin = size;
    size += flat_extent(parameter.tensor.numel(), type);
  }
  auto const ranks = static_cast<std::int64_t>(collective_.size().value);
  auto const element_bytes = static_cast<std::int64_t>(c10::elementSize(type));
  auto const slice = flat_extent((size + ranks - 1) / ranks, type);
  auto const memory = collective_.allocate_zeros(static_cast<std::size_t>(ranks * slice * element_bytes));
  auto const own_begin = static_cast<std::int64_t>(collective_.rank().value) * slice;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    auto& parameter = parameters_[i];
    if (parameter.tensor.scalar_type() != type) continue;
    auto* const at = static_cast<std::byte*>(memory.get()) + parameter.begin * element_bytes;
    parameter.view = view_at({memory, at}, parameter.tensor);
    auto const begin = std::max(parameter.begin, own_begin);
    auto const end = std::min(parameter.begin + parameter.tensor.numel(), own_begin + slice);
    if (begin < end) pieces_.push_back({i, begin, end});
  }
  arrays_.push_back({type, memory, slice});
}

// In a storage that says it can be resized, since `load` gives new memory to a tensor in any other.
RAYTRAIN_TORCH_INLINE auto FlatParameters::view_at(std::shared_ptr<void> const& place, at::Tensor const& like)
    -> at::Tensor {
  auto const release = [](void* held) { delete static_cast<std::shared_ptr<void>*>(held); };
  auto const nbytes = static_cast<std::size_t>(like.numel()) * like.element_size();
  auto view = at::empty({0}, like.options());
  c10::DataPtr memory{place.get(), new std::shared_ptr<void>{place}, release, like.device()};
  c10::Storage const storage{c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t{}, nbytes, std::move(memory), view.storage().allocator(), true)};
  view.set_(storage, 0, like.sizes(), flat_strides(like));
  return view;
}

RAYTRAIN_TORCH_INLINE auto FlatParameters::elements(std::size_t array, std::int64_t begin, std::int64_t end) const
    -> at::Tensor {
  auto const& [type, memory, slice, gradients] = arrays_[array];
  auto* const at = static_cast<std::byte*>(memory.get()) + begin * static_cast<std::int64_t>(c10::elementSize(type));
  return tensor_over(at, {end - begin}, type, parameters_.front().view.device());
}

RAYTRAIN_TORCH_INLINE auto FlatParameters::copied_gradients(Piece const& first, Piece const& last) -> at::Tensor {
  auto& array = arrays_[parameters_[first.parameter].array];
  if (!array.gradients.defined()) {
    auto const size = array.slice * static_cast<std::int64_t>(collective_.size().value);
    array.gradients = torch::zeros({size}, parameters_[first.parameter].view.options());
  }
  for (auto i = first.parameter; i <= last.parameter; ++i) {
    auto const& parameter = parameters_[i];
    auto gradient = parameter.tensor.grad();
    if (gradient.sizes() != parameter.view.sizes()) {
      throw Error{Errc::backend, "a step of a sharded optimizer",
                  "the gradient of parameter '" + parameter.name + "' has another shape than the parameter",
                  "leave gradients to backward(), or put such of the parameter's shape in their place"};
    }
    if (gradient.is_sparse()) gradient = gradient.to_dense();
    array.gradients.as_strided(parameter.view.sizes(), parameter.view.strides(), parameter.begin).copy_(gradient);
  }
  return array.gradients.slice(0, first.begin, last.end);
}

RAYTRAIN_TORCH_INLINE void FlatParameters::take_back() {
  for (auto& parameter : parameters_) {
    auto const& tensor = parameter.tensor;
    auto const& view = parameter.view;
    auto const fits = tensor.sizes() == view.sizes() && tensor.scalar_type() == view.scalar_type() &&
                      tensor.device() == view.device();
    if (!fits) {
      throw Error{Errc::backend, "a step of a sharded optimizer",
                  "parameter '" + parameter.name + "' has another shape, type or device than when it was prepared",
                  "change a model before prepare_model() and prepare_optimizer()"};
    }
    if (tensor.data_ptr() == view.data_ptr() && tensor.strides() == view.strides()) continue;
    view.copy_(tensor);
    tensor.set_data(view);
  }
}

RAYTRAIN_TORCH_INLINE void FlatParameters::gather(std::uint32_t hash) {
  collective_.tag().of = CallOf::step;
  ++collective_.tag().number;
  collective_.tag().samples = hash;
  if (collective_.size().value > 1) {
    for (auto const& array : arrays_) {
      auto const slice_bytes = static_cast<std::size_t>(array.slice) * c10::elementSize(array.type);
      auto const ranks = collective_.size().value;
      std::span const all{static_cast<std::uint8_t*>(array.memory.get()), ranks * slice_bytes};
      collective_.all_gather(all.subspan(collective_.rank().value * slice_bytes, slice_bytes), all);
    }
  }
  for (auto const& parameter : parameters_) parameter.tensor.unsafeGetTensorImpl()->bump_version();
}

}  // namespace raytrain::detail
