// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <raytrain/backend/torch/detail/flat_parameters.hpp>
#include <raytrain/backend/torch/detail/gradient_arena.hpp>
#include <raytrain/backend/torch/detail/gradient_element.hpp>
#include <raytrain/backend/torch/detail/tensor_over.hpp>
#include <raytrain/collective/buffer.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_TORCH_INLINE GradientArena::GradientArena(torch::nn::Module const& module, Collective& collective,
                                                   at::Device device, std::size_t numbers)
    : device_{device}, is_whole_{!collective.takes_device_arrays()}, numbers_(numbers) {
  for (auto const& item : module.named_parameters()) {
    auto const& parameter = item.value();
    if (!parameter.requires_grad() || !known_.insert(parameter.unsafeGetTensorImpl()).second) continue;
    slots_.push_back(make_slot(item.key(), parameter));
  }
  for (auto const type : {torch::kFloat, torch::kDouble, torch::kHalf, torch::kBFloat16}) lay_out(type, collective);
}

RAYTRAIN_TORCH_INLINE auto GradientArena::has(at::Tensor const& parameter) const -> bool {
  return known_.contains(parameter.unsafeGetTensorImpl());
}

RAYTRAIN_TORCH_INLINE auto GradientArena::place_of(at::Tensor const& parameter) const -> std::shared_ptr<void> {
  auto const slot = std::ranges::find_if(slots_, [&](Slot const& each) { return each.parameter.is_same(parameter); });
  return slot == slots_.end() ? nullptr : slot->memory;
}

RAYTRAIN_TORCH_INLINE void GradientArena::begin_backward() {
  holds_sum_ = false;
  for (auto const& slot : slots_) set(slot.mark, 0);
  for (auto const& number : numbers_) set(number, 0);
}

RAYTRAIN_TORCH_INLINE void GradientArena::place_gradient(std::size_t index, at::Tensor const& gradient) {
  auto& slot = slots_[index];
  check_fits(slot, gradient);
  if (!slot.parameter.grad().defined()) {
    torch::NoGradGuard const no_grad;
    leave_to_keeper(slot);
    if (!holds_sum_) slot.view.zero_();
    slot.parameter.mutable_grad() = slot.view;
  }
  add(slot.mark, 1);
}

RAYTRAIN_TORCH_INLINE void GradientArena::gather() {
  torch::NoGradGuard const no_grad;
  for (auto& slot : slots_) gather(slot);
}

RAYTRAIN_TORCH_INLINE void GradientArena::gather(Bucket const& bucket) {
  torch::NoGradGuard const no_grad;
  for (auto const index : bucket.parameters) gather(slots_[index]);
}

RAYTRAIN_TORCH_INLINE void GradientArena::gather(Slot& slot) const {
  auto& gradient = slot.parameter.mutable_grad();
  if (!gradient.defined()) {
    leave_to_keeper(slot);
    if (!holds_sum_) slot.view.zero_();
  } else if (!gradient.is_same(slot.view)) {
    check_fits(slot, gradient);
    leave_to_keeper(slot);
    slot.view.copy_(gradient);
    gradient = slot.view;
  }
}

RAYTRAIN_TORCH_INLINE void GradientArena::scale_sum(double factor) {
  torch::NoGradGuard const no_grad;
  gather();
  auto const scale = [&](void* memory, std::size_t size, at::ScalarType type, at::Device device) {
    if (size == 0) return;
    tensor_over(memory, {static_cast<std::int64_t>(size)}, type, device).mul_(factor);
  };
  for (auto const& flat : flats_) {
    scale(flat.memory.get(), flat.gradients, flat.type, device_);
    scale(flat.counted.get(), flat.counts, flat.type, at::kCPU);
  }
  keep_sum();
}

RAYTRAIN_TORCH_INLINE void GradientArena::scale_gradients(std::uint32_t shards) {
  std::vector<Mark> defined;
  for (auto const& slot : slots_) {
    if (slot.parameter.grad().defined()) defined.push_back(slot.mark);
  }
  if (defined.empty()) return;
  scale_sum(shards);
  for (auto const& mark : defined) set(mark, 1);
}

RAYTRAIN_TORCH_INLINE void GradientArena::set_aside() {
  torch::NoGradGuard const no_grad;
  for (auto& slot : slots_) {
    auto& gradient = slot.parameter.mutable_grad();
    if (gradient.defined()) slot.aside = slot.aside.defined() ? slot.aside.add(gradient) : gradient;
    gradient.reset();
    leave_to_keeper(slot);
  }
}

RAYTRAIN_TORCH_INLINE void GradientArena::hide_gradients() {
  for (auto const& slot : slots_) slot.parameter.mutable_grad().reset();
}

RAYTRAIN_TORCH_INLINE void GradientArena::drop_gradients() {
  for (auto& slot : slots_) {
    slot.parameter.mutable_grad().reset();
    slot.aside.reset();
  }
}

RAYTRAIN_TORCH_INLINE void GradientArena::show_gradients() {
  torch::NoGradGuard const no_grad;
  for (auto& slot : slots_) {
    auto& gradient = slot.parameter.mutable_grad();
    auto const before = std::exchange(slot.aside, at::Tensor{});
    if (value(slot.mark) > 0) {
      if (before.defined()) slot.view.add_(before);
      gradient = slot.view;
    } else if (before.defined()) {
      gradient = before;
    }
  }
}

RAYTRAIN_TORCH_INLINE auto GradientArena::cut_into_buckets(std::size_t bucket_bytes) const -> std::vector<Bucket> {
  std::vector<Bucket> buckets;
  for (auto const& flat : flats_) {
    auto* const begin = static_cast<std::byte*>(flat.memory.get());
    Bucket bucket{.type = flat.type, .begin = begin, .end = begin};
    for (std::size_t index = 0; index < slots_.size(); ++index) {
      auto const& slot = slots_[index];
      if (slot.parameter.scalar_type() != flat.type) continue;
      if (slot.parameter.numel() > 0 && static_cast<std::size_t>(bucket.end - bucket.begin) >= bucket_bytes) {
        buckets.push_back(bucket);
        bucket = {.type = flat.type, .begin = bucket.end, .end = bucket.end};
      }
      bucket.parameters.push_back(index);
      bucket.end += extent_bytes(slot);
    }
    if (!bucket.parameters.empty()) buckets.push_back(std::move(bucket));
  }
  return buckets;
}

RAYTRAIN_TORCH_INLINE auto GradientArena::contents_of(Bucket const& bucket, Number number, bool before_marks) const
    -> GradientBucket {
  GradientBucket contents;
  contents.index = number.index;
  contents.count = number.count;
  for (auto const index : bucket.parameters) {
    auto const& slot = slots_[index];
    contents.parts.push_back({slot.name, slot.parameter, slot.view, before_marks || value(slot.mark) > 0});
  }
  auto const size = (bucket.end - bucket.begin) / static_cast<std::ptrdiff_t>(c10::elementSize(bucket.type));
  std::shared_ptr<void> const begin{slots_[bucket.parameters.front()].memory, bucket.begin};
  contents.values = tensor_over(begin, {size}, {1}, bucket.type, device_);
  return contents;
}

RAYTRAIN_TORCH_INLINE void GradientArena::clear_gaps() const {
  for (auto const& slot : slots_) {
    auto const used = static_cast<std::size_t>(slot.view.nbytes());
    auto const gap = static_cast<std::int64_t>(extent_bytes(slot) - used);
    tensor_over(static_cast<std::byte*>(slot.memory.get()) + used, {gap}, at::kByte, device_).zero_();
  }
}

RAYTRAIN_TORCH_INLINE auto GradientArena::extent_bytes(Slot const& slot) -> std::size_t {
  auto const type = slot.parameter.scalar_type();
  return static_cast<std::size_t>(flat_extent(slot.parameter.numel(), type)) * c10::elementSize(type);
}

RAYTRAIN_TORCH_INLINE auto GradientArena::make_slot(std::string const& name, at::Tensor const& parameter) const
    -> Slot {
  auto const type = parameter.scalar_type();
  if (parameter.device() != device_ || !is_gradient_type(type)) {
    throw Error{Errc::backend, "preparing a model",
                "parameter '" + name + "' is " + c10::toString(type) + " on " + parameter.device().str() +
                    "; gradients are averaged in float, double, Half and BFloat16 on " + device_.str(),
                "convert it, or freeze it with requires_grad_(false)"};
  }
  return {name, parameter, {}, {}, {}};
}

RAYTRAIN_TORCH_INLINE void GradientArena::lay_out(at::ScalarType type, Collective& collective) {
  std::int64_t values = 0;
  std::size_t marks = 0;
  bool is_in_use = false;
  for (auto const& slot : slots_) {
    auto const of_slot = slot.parameter.scalar_type();
    if (of_slot == type) values += flat_extent(slot.parameter.numel(), type);
    if (type_of_counts(of_slot) == type) ++marks;
    is_in_use = is_in_use || of_slot == type || type_of_counts(of_slot) == type;
  }
  if (!is_in_use) return;

  auto const element_bytes = static_cast<std::int64_t>(c10::elementSize(type));
  auto const counts = marks + (flats_.empty() ? numbers_.size() : 0);
  auto const gradients = static_cast<std::size_t>(values);
  auto const size = gradients + (is_whole_ ? counts : 0);
  auto memory = with_gradient_element(type, [&]<class T>(T) { return collective.allocate<T>(size).release(); });
  auto* at = static_cast<std::byte*>(memory.get());
  auto counted = is_whole_ ? std::shared_ptr<void>{memory, at + values * element_bytes}
                           : allocate_pages(counts * static_cast<std::size_t>(element_bytes));
  auto* mark = static_cast<std::byte*>(counted.get());
  auto const next_mark = [&] { return Mark{type, std::exchange(mark, mark + element_bytes)}; };
  for (auto& slot : slots_) {
    auto const of_slot = slot.parameter.scalar_type();
    if (type_of_counts(of_slot) == type) slot.mark = next_mark();
    if (of_slot != type) continue;
    slot.memory = {memory, at};
    slot.view = make_view(slot);
    at += flat_extent(slot.parameter.numel(), type) * element_bytes;
  }
  if (flats_.empty()) std::ranges::generate(numbers_, next_mark);
  flats_.push_back({type, std::move(memory), gradients, std::move(counted), counts});
}

RAYTRAIN_TORCH_INLINE auto GradientArena::make_view(Slot const& slot) const -> at::Tensor {
  auto const& parameter = slot.parameter;
  return tensor_over(slot.memory, parameter.sizes(), flat_strides(parameter), parameter.scalar_type(), device_);
}

RAYTRAIN_TORCH_INLINE void GradientArena::leave_to_keeper(Slot& slot) const {
  auto const& storage = slot.view.storage();
  if (slot.view.use_count() == 1 && storage.use_count() == 1) return;
  auto own = slot.view.clone();                                            // with the strides of the view
  (void)storage.set_data_ptr(own.storage().set_data_ptr(c10::DataPtr{}));  // all that refer to it follow
  slot.view = make_view(slot);
}

RAYTRAIN_TORCH_INLINE void GradientArena::check_fits(Slot const& slot, at::Tensor const& gradient) {
  if (gradient.sizes() != slot.view.sizes() || gradient.scalar_type() != slot.view.scalar_type() ||
      gradient.device() != slot.view.device()) {
    throw Error{Errc::backend, "averaging gradients",
                "parameter '" + slot.name + "' has another shape, type or device than when the model was prepared",
                "change a model before prepare_model()"};
  }
}

RAYTRAIN_TORCH_INLINE auto GradientArena::value(Mark const& mark) -> double {
  return with_count(mark.type, [&]<class T>(T) -> double { return *static_cast<T*>(mark.at); });
}

RAYTRAIN_TORCH_INLINE void GradientArena::set(Mark const& mark, int value) {
  with_count(mark.type, [&]<class T>(T) { *static_cast<T*>(mark.at) = static_cast<T>(value); });
}

}  // namespace raytrain::detail
