// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <raytrain/collective/worker_collective.hpp>
#include <raytrain/core/error.hpp>

namespace raytrain::detail {

/// Holds the gradients of one model in one flat array per element type, so that one reduction serves all of them.
///
/// Before a backward computes a parameter's gradient, the arena places that gradient in the array, whatever `zero_grad`
/// did; then autograd adds to it in place. After the gradients follows one mark per parameter, reduced with them:
/// whether any rank had a gradient for it. A parameter that no rank used keeps no gradient, and optimizers pass over it
/// as in one process. After the marks follow the caller's numbers.
///
/// A gradient that somebody keeps beyond `zero_grad(true)` keeps its values, as in one process: it gets memory of its
/// own before its place is used again.
///
/// Threads: the worker's. The memory lives as long as a gradient in it does.
class GradientArena {
 public:
  /// Errors: `backend` for a parameter that is not on the CPU or neither float nor double, with its name.
  GradientArena(torch::nn::Module const& module, WorkerCollective& collective, std::size_t numbers)
      : numbers_(numbers) {
    for (auto const& item : module.named_parameters()) {
      auto const& parameter = item.value();
      if (!parameter.requires_grad() || !known_.insert(parameter.unsafeGetTensorImpl()).second) continue;
      slots_.push_back(make_slot(item.key(), parameter));
    }
    for (auto const type : {torch::kFloat, torch::kDouble}) lay_out(type, collective);
  }

  GradientArena(GradientArena const&) = delete;
  auto operator=(GradientArena const&) -> GradientArena& = delete;

  /// Parameters that want a gradient.
  [[nodiscard]] auto size() const noexcept -> std::size_t { return slots_.size(); }
  [[nodiscard]] auto parameter(std::size_t index) const -> at::Tensor const& { return slots_[index].parameter; }
  [[nodiscard]] auto name(std::size_t index) const -> std::string const& { return slots_[index].name; }
  [[nodiscard]] auto has(at::Tensor const& parameter) const -> bool {
    return known_.contains(parameter.unsafeGetTensorImpl());
  }

  /// Forgets which parameters were used, and the numbers.
  void begin_backward() {
    for (auto const& slot : slots_) set(slot.mark, 0);
    for (auto const& number : numbers_) set(number, 0);
  }

  /// After `reduce`: the numbers of all ranks, reduced.
  [[nodiscard]] auto number(std::size_t index) const -> double { return value(numbers_[index]); }
  void set_number(std::size_t index, int value) { set(numbers_[index], value); }

  /// Prepares the place where autograd is about to add `gradient` to the parameter's.
  ///
  /// Errors: `backend` when its shape or type is not the one that the parameter had.
  void expect(std::size_t index, at::Tensor const& gradient) {
    auto& slot = slots_[index];
    check_fits(slot, gradient);
    if (!slot.parameter.grad().defined()) {
      torch::NoGradGuard const no_grad;
      leave_to_keeper(slot);
      slot.parameter.mutable_grad() = slot.view.zero_();
    }
    set(slot.mark, 1);
  }

  /// Calls `reduce` with the array of each element type in use, a span of float or double. A parameter without a
  /// gradient contributes zeros, and gains a gradient if another rank had one.
  ///
  /// Errors: `backend` for a gradient that the program has put in place and that does not fit.
  template <class Reduce>
  void reduce(Reduce const& reduce) {
    torch::NoGradGuard const no_grad;
    for (auto& slot : slots_) {
      auto& gradient = slot.parameter.mutable_grad();
      if (!gradient.defined()) {
        leave_to_keeper(slot);
        slot.view.zero_();
      } else if (!gradient.is_same(slot.view)) {
        check_fits(slot, gradient);
        leave_to_keeper(slot);
        slot.view.copy_(gradient);
        gradient = slot.view;
      }
    }
    for (auto const& flat : flats_) {
      with_element(flat.type, [&]<class T>(T) { reduce(std::span<T>{static_cast<T*>(flat.memory.get()), flat.size}); });
    }
    for (auto const& slot : slots_) {
      auto& gradient = slot.parameter.mutable_grad();
      if (!gradient.defined() && value(slot.mark) > 0) gradient = slot.view;
    }
  }

 private:
  struct Flat {
    at::ScalarType type{};
    std::shared_ptr<void> memory;
    std::size_t size = 0;
  };

  struct Mark {
    at::ScalarType type{};
    void* at = nullptr;
  };

  struct Slot {
    std::string name;
    at::Tensor parameter;
    std::shared_ptr<void> place;  ///< In the array, all of which it keeps alive.
    at::Tensor view;
    Mark mark;
  };

  /// A cache line, so that no two gradients share one.
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
    return {name, parameter, {}, {}, {}};
  }

  // Memory comes from the collective, with which ranks that are processes need not copy it for each other. It is
  // aligned as LibTorch's kernels like it.
  void lay_out(at::ScalarType type, WorkerCollective& collective) {
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

    auto const numbers = flats_.empty() ? numbers_.size() : 0;
    auto const size = static_cast<std::size_t>(values + parameters) + numbers;
    auto memory = with_element(type, [&]<class T>(T) { return collective.allocate<T>(size).release(); });
    auto* at = static_cast<std::byte*>(memory.get());
    auto* mark = at + values * static_cast<std::int64_t>(c10::elementSize(type));
    auto const next_mark = [&] { return Mark{type, std::exchange(mark, mark + c10::elementSize(type))}; };
    for (auto& slot : slots_) {
      if (slot.parameter.scalar_type() != type) continue;
      slot.place = {memory, at};
      slot.view = make_view(slot);
      slot.mark = next_mark();
      at += rounded(slot.parameter.numel()) * static_cast<std::int64_t>(c10::elementSize(type));
    }
    if (flats_.empty()) std::ranges::generate(numbers_, next_mark);
    flats_.push_back({type, std::move(memory), size});
  }

  // It has the strides of its parameter, as autograd wants. It is no autograd view, since zero_grad() could not detach
  // one.
  static auto make_view(Slot const& slot) -> at::Tensor {
    auto const& parameter = slot.parameter;
    auto const keep_alive = [place = slot.place](void*) {};
    auto const options = torch::TensorOptions{}.dtype(parameter.scalar_type());
    if (parameter.is_non_overlapping_and_dense()) {
      return torch::from_blob(slot.place.get(), parameter.sizes(), parameter.strides(), keep_alive, options);
    }
    return torch::from_blob(slot.place.get(), parameter.sizes(), keep_alive, options);
  }

  /// Moves a gradient that somebody keeps to memory of its own, before its place is used for the next one.
  static void leave_to_keeper(Slot& slot) {
    auto const& storage = slot.view.storage();
    if (slot.view.use_count() == 1 && storage.use_count() == 1) return;
    auto own = c10::GetAllocator(c10::kCPU)->allocate(storage.nbytes());
    if (storage.nbytes() > 0) std::memcpy(own.get(), slot.place.get(), storage.nbytes());
    (void)storage.set_data_ptr(std::move(own));  // all that refer to it follow
    slot.view = make_view(slot);
  }

  static void check_fits(Slot const& slot, at::Tensor const& gradient) {
    if (gradient.sizes() != slot.view.sizes() || gradient.scalar_type() != slot.view.scalar_type()) {
      throw Error{Errc::backend, "averaging gradients",
                  "parameter '" + slot.name + "' has another shape or type than when the model was prepared",
                  "change a model before prepare_model()"};
    }
  }

  static auto value(Mark const& mark) -> double {
    return with_element(mark.type, [&]<class T>(T) -> double { return *static_cast<T*>(mark.at); });
  }

  static void set(Mark const& mark, int value) {
    with_element(mark.type, [&]<class T>(T) { *static_cast<T*>(mark.at) = static_cast<T>(value); });
  }

  std::vector<Slot> slots_;
  std::vector<Flat> flats_;
  std::vector<Mark> numbers_;
  std::unordered_set<c10::TensorImpl const*> known_;
};

}  // namespace raytrain::detail
