// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <torch/torch.h>

#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/wrapped_collective.hpp>

/// How tensors lie one behind the other in a flat array of their element type.
namespace raytrain::detail {

/// A cache line, so that no two tensors share one.
inline constexpr std::int64_t flat_alignment_bytes = 64;

/// So many elements, rounded up to whole cache lines.
[[nodiscard]] inline auto flat_extent(std::int64_t elements, at::ScalarType type) -> std::int64_t {
  auto const line = flat_alignment_bytes / static_cast<std::int64_t>(c10::elementSize(type));
  return (elements + line - 1) / line * line;
}

/// The tensor's own, where it lies without holes, as autograd likes gradients; else those of rows.
[[nodiscard]] inline auto flat_strides(at::Tensor const& tensor) -> std::vector<std::int64_t> {
  if (tensor.is_non_overlapping_and_dense()) return tensor.strides().vec();
  std::vector<std::int64_t> strides(static_cast<std::size_t>(tensor.dim()));
  std::int64_t stride = 1;
  for (auto i = strides.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= tensor.size(static_cast<std::int64_t>(i));
  }
  return strides;
}

/// Puts the parameters that an optimizer changes into one flat array per element type, of which each rank has an equal
/// slice. A rank changes its slice, and `gather` gives it to all others.
///
/// A parameter is the tensor that it was, in other memory. Its storage is its own, of its own size, as LibTorch's
/// files and `load` want it.
///
/// Threads: the worker's. The memory lives as long as a parameter in it does.
class FlatParameters {
 public:
  struct Parameter {
    std::string name;
    at::Tensor tensor;
    std::vector<std::size_t> groups;       ///< Of parameters, that list it: each as often as it does.
    std::size_t number = 0;                ///< Of its first place in these, counted through all groups.
    std::shared_ptr<void> gradient_place;  ///< Where backwards leave its gradient; null where that is not known.
    std::size_t array = 0;                 ///< What follows is set by `FlatParameters`.
    std::int64_t begin = 0;                ///< In that array.
    at::Tensor view{};                     ///< What the parameter's memory is.
  };

  /// The elements of a parameter that are this rank's.
  struct Piece {
    std::size_t parameter = 0;
    std::int64_t begin = 0;  ///< In the parameter's array, as `end`.
    std::int64_t end = 0;
  };

  /// `parameters`: no two of them the same, none without elements, all on one device. `collective`: of arrays there,
  /// tagged as the optimizer's.
  FlatParameters(std::vector<Parameter> parameters, TaggedCollective const& collective);

  FlatParameters(FlatParameters const&) = delete;
  auto operator=(FlatParameters const&) -> FlatParameters& = delete;

  [[nodiscard]] auto parameters() const noexcept -> std::vector<Parameter> const& { return parameters_; }
  [[nodiscard]] auto pieces() const noexcept -> std::vector<Piece> const& { return pieces_; }

  /// Elements of an array, {end - begin}.
  [[nodiscard]] auto elements(std::size_t array, std::int64_t begin, std::int64_t end) const -> at::Tensor;

  /// Gradients of the elements of these pieces and all between, of parameters whose gradients lie elsewhere: copied,
  /// {last.end - first.begin}.
  ///
  /// Errors: `backend` for a gradient of another shape than its parameter.
  [[nodiscard]] auto copied_gradients(Piece const& first, Piece const& last) -> at::Tensor;

  /// Copies what the program has put in the place of a parameter's memory, which then is the array again.
  ///
  /// Errors: `backend` for a parameter of another shape, type or device than it had.
  void take_back();

  /// Gives every rank the slices of all others. A group operation, a step of the optimizer.
  ///
  /// `hash`: of what must be the same on every rank.
  ///
  /// Errors: `rank_mismatch` if it is not.
  void gather(std::uint32_t hash);

 private:
  struct Array {
    at::ScalarType type{};
    std::shared_ptr<void> memory;
    std::int64_t slice = 0;  ///< Elements of each rank's.
    at::Tensor gradients{};  ///< Where they have to be copied.
  };

  void lay_out(at::ScalarType type);

  [[nodiscard]] static auto view_at(std::shared_ptr<void> const& place, at::Tensor const& like) -> at::Tensor;

  TaggedCollective collective_;
  std::vector<Parameter> parameters_;
  std::vector<Array> arrays_;
  std::vector<Piece> pieces_;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/flat_parameters-inl.hpp>
#endif
