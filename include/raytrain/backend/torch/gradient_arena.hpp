// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/core/error.hpp>

namespace raytrain::detail {

/// Gradients of one model in one flat piece of memory per element type, so that one reduction serves all of them.
///
/// A parameter's gradient is made to lie there when a backward is about to compute it, whatever `zero_grad` did; then
/// autograd adds to it in place. Behind the gradients lies one mark per parameter, reduced with them, which tells
/// whether any rank had a gradient for it: a parameter that no rank used keeps none, and optimizers pass over it as
/// they would in one process.
///
/// Threads: the worker's. The memory lives as long as a gradient in it does.
class GradientArena {
 public:
  /// Errors: `backend` for a parameter that is not on the CPU or neither float nor double, with its name.
  explicit GradientArena(torch::nn::Module const& module) {
    for (auto const& item : module.named_parameters()) {
      if (item.value().requires_grad()) slots_.push_back(make_slot(item.key(), item.value()));
    }
    for (auto const type : {torch::kFloat, torch::kDouble}) lay_out(type);
  }

  GradientArena(GradientArena const&) = delete;
  auto operator=(GradientArena const&) -> GradientArena& = delete;

  /// Parameters that want a gradient.
  [[nodiscard]] auto size() const noexcept -> std::size_t { return slots_.size(); }
  [[nodiscard]] auto parameter(std::size_t index) const -> at::Tensor const& { return slots_[index].parameter; }

  /// Forgets which parameters were used.
  void begin_backward() {
    for (auto const& slot : slots_) set_mark(slot, 0);
  }

  /// Autograd is about to add `gradient` to that of a parameter: gives it the place to do so.
  ///
  /// Errors: `backend` for one that does not fit since the parameter has changed.
  void expect(std::size_t index, at::Tensor const& gradient) {
    auto const& slot = slots_[index];
    check_fits(slot, gradient);
    if (!slot.parameter.grad().defined()) {
      torch::NoGradGuard const no_grad;
      slot.parameter.mutable_grad() = slot.view.zero_();
    }
    set_mark(slot, 1);
  }

  /// Calls `reduce` with the memory of each element type in use, a span of float or double: gradients, then marks.
  /// What a parameter without a gradient contributes is zero; it gains one if another rank had one.
  ///
  /// Errors: `backend` for a gradient that somebody else put in place and that does not fit.
  template <class Reduce>
  void reduce(Reduce const& reduce) {
    torch::NoGradGuard const no_grad;
    for (auto const& slot : slots_) {
      auto& gradient = slot.parameter.mutable_grad();
      if (!gradient.defined()) {
        slot.view.zero_();
      } else if (!gradient.is_same(slot.view)) {
        check_fits(slot, gradient);
        slot.view.copy_(gradient);
        gradient = slot.view;
      }
    }
    for (auto const& flat : flats_) {
      with_element(flat.scalar_type(), [&]<class T>(T) {
        reduce(std::span<T>{flat.data_ptr<T>(), static_cast<std::size_t>(flat.numel())});
      });
    }
    for (auto const& slot : slots_) {
      auto& gradient = slot.parameter.mutable_grad();
      if (!gradient.defined() && mark(slot) > 0) gradient = slot.view;
    }
  }

 private:
  struct Slot {
    std::string name;
    at::Tensor parameter;
    at::Tensor view;
    void* mark = nullptr;
  };

  /// A cache line of the smallest element, so that no gradient shares one with another.
  static constexpr std::int64_t alignment_bytes = 64;

  template <class F>
  static auto with_element(at::ScalarType type, F const& function) {
    return type == torch::kDouble ? function(double{}) : function(float{});
  }

  static auto make_slot(std::string const& name, at::Tensor const& parameter) -> Slot {
    auto const type = parameter.scalar_type();
    if (!parameter.device().is_cpu() || (type != torch::kFloat && type != torch::kDouble)) {
      throw Error{Errc::backend, "preparing a model",
                  "parameter '" + name + "' is " + c10::toString(type) + " on " + parameter.device().str() +
                      "; gradients are averaged in float and double on the CPU",
                  "convert it, or freeze it with requires_grad_(false)"};
    }
    return {name, parameter, {}, nullptr};
  }

  // Memory comes from LibTorch's own allocator, whose alignment suits its kernels.
  void lay_out(at::ScalarType type) {
    auto const line = alignment_bytes / static_cast<std::int64_t>(c10::elementSize(type));
    auto const rounded = [&](std::int64_t count) { return (count + line - 1) / line * line; };
    std::int64_t values = 0;
    std::int64_t parameters = 0;
    for (auto const& slot : slots_) {
      if (slot.parameter.scalar_type() != type) continue;
      values += rounded(slot.parameter.numel());
      ++parameters;
    }
    if (parameters == 0) return;

    auto const flat = torch::zeros({values + parameters}, type);
    auto* at = static_cast<std::byte*>(flat.data_ptr());
    auto* mark = at + values * static_cast<std::int64_t>(flat.element_size());
    for (auto& slot : slots_) {
      if (slot.parameter.scalar_type() != type) continue;
      slot.view = make_view(flat, at, slot.parameter);
      slot.mark = mark;
      at += rounded(slot.parameter.numel()) * static_cast<std::int64_t>(flat.element_size());
      mark += flat.element_size();
    }
    flats_.push_back(flat);
  }

  // Laid out in memory as its parameter, as autograd wants it. Not an autograd view, which zero_grad() could not
  // detach.
  static auto make_view(at::Tensor const& flat, void* at, at::Tensor const& parameter) -> at::Tensor {
    auto const keep_alive = [flat](void*) {};
    if (parameter.is_non_overlapping_and_dense()) {
      return torch::from_blob(at, parameter.sizes(), parameter.strides(), keep_alive, flat.options());
    }
    return torch::from_blob(at, parameter.sizes(), keep_alive, flat.options());
  }

  static void check_fits(Slot const& slot, at::Tensor const& gradient) {
    if (gradient.sizes() != slot.view.sizes() || gradient.scalar_type() != slot.view.scalar_type()) {
      throw Error{Errc::backend, "averaging gradients",
                  "parameter '" + slot.name + "' has another shape or type than when the model was prepared",
                  "change a model before prepare_model()"};
    }
  }

  static auto mark(Slot const& slot) -> double {
    return with_element(slot.view.scalar_type(), [&]<class T>(T) -> double { return *static_cast<T*>(slot.mark); });
  }

  static void set_mark(Slot const& slot, int value) {
    with_element(slot.view.scalar_type(), [&]<class T>(T) { *static_cast<T*>(slot.mark) = static_cast<T>(value); });
  }

  std::vector<Slot> slots_;
  std::vector<at::Tensor> flats_;
};

}  // namespace raytrain::detail
