// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <raytrain/backend/torch/detail/gradient_element.hpp>
#include <raytrain/backend/torch/gradient_exchange.hpp>
#include <raytrain/collective/collective.hpp>

namespace raytrain::detail {

/// Holds the gradients of one model in one flat array per element type, so that one reduction serves all of them.
///
/// Before a backward computes a parameter's gradient, the arena places that gradient in the array, whatever `zero_grad`
/// did; then autograd adds to it in place. After the gradients follows one mark per parameter, reduced with them:
/// whether any rank had a gradient for it. A parameter that no rank used keeps no gradient, and optimizers pass over it
/// as in one process. After the marks follow the caller's numbers. Marks and numbers together are the counts. Those of
/// gradients of 16 bits, which cannot count, are among the ones of float.
///
/// A gradient that somebody keeps beyond `zero_grad(true)` keeps its values, as in one process: it gets memory of its
/// own before its part of the array is used again.
///
/// Where a worker trains on a device, the array is in its memory, and the counts are apart from it on the CPU, which
/// looks at them without waiting for the device.
///
/// Threads: the worker's. The memory lives as long as a gradient in it does.
class GradientArena {
 public:
  /// `collective`: of arrays on the worker's device, where it trains on one.
  ///
  /// Errors: `backend` for a parameter that is elsewhere or of no `is_gradient_type`, with its name.
  GradientArena(torch::nn::Module const& module, Collective& collective, at::Device device, std::size_t numbers);

  GradientArena(GradientArena const&) = delete;
  auto operator=(GradientArena const&) -> GradientArena& = delete;

  [[nodiscard]] auto device() const noexcept -> at::Device { return device_; }

  /// Parameters that want a gradient.
  [[nodiscard]] auto size() const noexcept -> std::size_t { return slots_.size(); }
  [[nodiscard]] auto parameter(std::size_t index) const -> at::Tensor const& { return slots_[index].parameter; }
  [[nodiscard]] auto name(std::size_t index) const -> std::string const& { return slots_[index].name; }
  [[nodiscard]] auto has(at::Tensor const& parameter) const -> bool;
  /// Where a backward leaves the parameter's gradient, with `flat_strides`; null if it is none of these.
  [[nodiscard]] auto place_of(at::Tensor const& parameter) const -> std::shared_ptr<void>;

  /// Forgets which parameters were used, the numbers, and a sum.
  void begin_backward();

  /// A number of the caller's: this rank's, or all ranks' once `for_each_count` or `for_each_array` has reduced it.
  [[nodiscard]] auto number(std::size_t index) const -> double { return value(numbers_[index]); }
  void add_to_number(std::size_t index, int value) { add(numbers_[index], value); }

  /// Before autograd adds `gradient` to the parameter's: makes the parameter's part of the array its gradient, so that
  /// autograd adds there, and sets its mark.
  ///
  /// Errors: `backend` when its shape or type is not the one that the parameter had.
  void place_gradient(std::size_t index, at::Tensor const& gradient);

  // A reduction is `gather`, whatever is done to the arrays, and `show_gradients`. A parameter without a gradient
  // contributes zeros, and gains a gradient if another rank had one.

  /// Copies into the array each gradient that the program has put elsewhere, and zeros for each parameter without one.
  ///
  /// Errors: `backend` for a gradient that the program has put in place and that does not fit.
  void gather();

  /// The next backward adds to what the array holds, and to the marks and the numbers.
  void keep_sum() { holds_sum_ = true; }

  /// Multiplies what the array holds, after a `gather`, and keeps it as a sum.
  void scale_sum(double factor);

  /// Multiplies the gradients of earlier steps, which are averages already, by `shards`: they become a part of a sum
  /// that is divided by it later.
  void scale_gradients(std::uint32_t shards);

  /// Takes the gradients that there are away, until `show_gradients`. Those that are away already are added to them.
  void set_aside();

  /// The program has no gradients until `show_gradients`, and the array keeps what it holds.
  void hide_gradients();

  /// Forgets them, and what was set aside.
  void drop_gradients();

  /// Whether marks and numbers follow the gradients in their array, for one reduction of all.
  [[nodiscard]] auto is_whole() const noexcept -> bool { return is_whole_; }

  /// Calls `action` with the array of each element type in use, a span of these: gradients, and the counts if they
  /// follow them.
  template <class Action>
  void for_each_array(Action const& action) {
    for (auto const& flat : flats_) {
      auto const size = flat.gradients + (is_whole_ ? flat.counts : 0);
      if (size == 0) continue;
      with_gradient_element(flat.type, [&]<class T>(T) {
        action(std::span<T>{static_cast<T*>(flat.memory.get()), size});
      });
    }
  }

  /// Calls `action` with the counts of each element type in use, a span of float or double in CPU memory.
  template <class Action>
  void for_each_count(Action const& action) {
    for (auto const& flat : flats_) {
      if (flat.counts == 0) continue;
      with_count(flat.type, [&]<class T>(T) {
        action(std::span<T>{static_cast<T*>(flat.counted.get()), flat.counts});
      });
    }
  }

  /// Parameters whose gradients follow each other in the array of their type.
  struct Bucket {
    at::ScalarType type{};
    std::byte* begin = nullptr;
    std::byte* end = nullptr;
    std::vector<std::size_t> parameters{};
  };

  /// All gradients: of each element type in the order of parameters, in buckets of at least so many bytes, but for the
  /// last one of the type.
  [[nodiscard]] auto cut_into_buckets(std::size_t bucket_bytes) const -> std::vector<Bucket>;

  /// The bucket's number, of all.
  struct Number {
    std::size_t index = 0;
    std::size_t count = 0;
  };

  /// The bucket, as a `GradientExchange` takes it. The marks say which parameters are used. With `before_marks`, while
  /// they are not reduced yet, all count as used.
  [[nodiscard]] auto contents_of(Bucket const& bucket, Number number, bool before_marks = false) const
      -> GradientBucket;

  /// `gather`, of these parameters alone.
  void gather(Bucket const& bucket);

  /// Makes the gaps between gradients 0, whatever was done to a bucket.
  void clear_gaps() const;

  /// The array's parts are gradients, of the parameters that any rank used, to which is added what was set aside.
  void show_gradients();

 private:
  struct Flat {
    at::ScalarType type{};
    std::shared_ptr<void> memory;
    std::size_t gradients = 0;      ///< Elements of them.
    std::shared_ptr<void> counted;  ///< The counts.
    std::size_t counts = 0;
  };

  struct Mark {
    at::ScalarType type{};
    void* at = nullptr;
  };

  struct Slot {
    std::string name;
    at::Tensor parameter;
    std::shared_ptr<void> memory;  ///< In the array, all of which it keeps alive.
    at::Tensor view;
    Mark mark;
    at::Tensor aside{};  ///< The gradient that was set aside.
  };

  /// Of gradients of this type.
  static auto type_of_counts(at::ScalarType type) -> at::ScalarType { return is_short(type) ? at::kFloat : type; }

  template <class F>
  static auto with_count(at::ScalarType type, F const& function) {
    return type == torch::kDouble ? function(double{}) : function(float{});
  }

  /// What the parameter takes in the array, its gap included.
  static auto extent_bytes(Slot const& slot) -> std::size_t;

  [[nodiscard]] auto make_slot(std::string const& name, at::Tensor const& parameter) const -> Slot;

  // Memory comes from the collective, with which ranks that are processes need not copy it for each other. It is
  // aligned as LibTorch's kernels like it.
  void lay_out(at::ScalarType type, Collective& collective);

  // It has the strides of its parameter, as autograd wants. It is no autograd view, since zero_grad() could not detach
  // one.
  [[nodiscard]] auto make_view(Slot const& slot) const -> at::Tensor;

  /// Moves a gradient that somebody keeps to memory of its own, before its part of the array is used for the next one.
  void leave_to_keeper(Slot& slot) const;

  static void check_fits(Slot const& slot, at::Tensor const& gradient);

  void gather(Slot& slot) const;

  static auto value(Mark const& mark) -> double;

  static void set(Mark const& mark, int value);
  static void add(Mark const& mark, int value) { set(mark, static_cast<int>(GradientArena::value(mark)) + value); }

  at::Device device_;
  bool is_whole_;
  std::vector<Slot> slots_;
  std::vector<Flat> flats_;
  std::vector<Mark> numbers_;
  std::unordered_set<c10::TensorImpl const*> known_;
  bool holds_sum_ = false;  ///< From `keep_sum` to `begin_backward`.
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/gradient_arena-inl.hpp>
#endif
