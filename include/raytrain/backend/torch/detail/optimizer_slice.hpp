// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <raytrain/backend/torch/detail/flat_parameters.hpp>
#include <raytrain/checkpoint/safetensors.hpp>

namespace raytrain::detail {

/// An element-wise optimizer of this rank's slice of `FlatParameters`.
///
/// Pieces of parameters that lie one behind the other, as their gradients do, and of which the optimizer has the same
/// count of steps, are one parameter for it: a segment. When a step has gradients for some of them only, they are cut
/// apart, since the optimizer passes over the others.
///
/// Threads: the worker's.
class OptimizerSlice {
 public:
  using Groups = std::vector<torch::optim::OptimizerParamGroup>;
  using Make = std::function<std::unique_ptr<torch::optim::Optimizer>(Groups)>;

  /// What the optimizer keeps of a piece, by the names that it gives it.
  struct State {
    std::map<std::string, at::Tensor> tensors;  ///< Each of the piece's elements, of one dimension.
    std::map<std::string, std::string> values;  ///< JSON, as `OptimizerState` has it.
  };

  /// `make` gives the optimizer of some groups of parameters.
  OptimizerSlice(std::unique_ptr<FlatParameters> parameters, Make make, Groups const& groups);

  [[nodiscard]] auto parameters() const noexcept -> FlatParameters const& { return *parameters_; }

  /// The optimizer of the segments, in as many groups as the parameters have.
  [[nodiscard]] auto optimizer() const noexcept -> torch::optim::Optimizer& { return *optimizer_; }

  /// Takes the groups' options, and updates the parameters on every rank. A group operation.
  ///
  /// Errors: as `FlatParameters`; `rank_mismatch` where learning rates, or what has a gradient, differ between ranks.
  void step(Groups const& groups);

  void take_options(Groups const& groups);

  /// One for each of the pieces.
  ///
  /// Errors: `backend` for an optimizer that is not what `ElementwiseOptimizer` says.
  [[nodiscard]] auto states() const -> std::vector<State>;

  /// Replaces them, and those options that `load` of an optimizer takes from `options`, "group.0.lr" and the like.
  /// `attempted` begins the message of an error.
  ///
  /// Errors: `backend` for states that are none of this optimizer's.
  void set_states(std::vector<State> const& states, TensorMetadata const& options, Groups const& groups,
                  std::string_view attempted);

 private:
  struct Segment {
    std::size_t first = 0;  ///< Piece.
    std::size_t last = 0;
    at::Tensor elements{};
    at::Tensor gradients{};  ///< Where backwards leave them; undefined where that is not known.
    std::size_t number = 0;  ///< Of its first place in the optimizer's groups.
  };

  /// A hash of what the ranks must have alike for a step: each changes its slice by what it has itself.
  [[nodiscard]] auto step_hash() const -> std::uint32_t;

  [[nodiscard]] auto parameter_of(std::size_t piece) const -> FlatParameters::Parameter const&;
  [[nodiscard]] auto has_gradient(std::size_t piece) const -> bool;

  void build(Groups const& groups, std::vector<State> const& states, std::vector<bool> const& used);
  /// Whether a piece belongs to the segment of the one before it.
  [[nodiscard]] auto goes_on(std::size_t piece) const -> bool;
  void lay_out(Segment& segment) const;

  void cut_where_unused(Groups const& groups);
  [[nodiscard]] auto gradients_of(Segment const& segment) -> at::Tensor;

  /// Where the gradients lie of a segment of one piece, if that is not in the order of another one's.
  [[nodiscard]] auto single_gradient(Segment const& segment) const -> at::Tensor;

  void load(std::vector<State> const& states, TensorMetadata options, std::string_view attempted);

  std::unique_ptr<FlatParameters> parameters_;
  Make make_;
  std::vector<Segment> segments_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/optimizer_slice-inl.hpp>
#endif
