// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <utility>

#include <raytrain/backend/torch/torch_module.hpp>
#include <raytrain/core/identifiers.hpp>

namespace raytrain {

/// A model that each worker trains by itself, as `TorchContext::prepare_local_model` returns it: a holder like `M`,
/// whose type says so: hold it as `auto`, since a copy in an `M` is none. `TorchContext::average_parameters` and
/// `DiLoCo` make the workers' parameters the same again.
///
/// A `TrainingState` that is made of it keeps for each worker the model, the optimizers of its parameters, and what
/// else has a file of its own, as a `GradScaler`, an `AveragedModel` and a schedule; but a `DiLoCo`, which is the same
/// on all workers, and other models with their optimizers. Rank 0's lie where they always lie, and another rank's in
/// that rank's folder. With another number of workers all begin with rank 0's, and a warning says so if they were not
/// the same. A state of a copy in an `M` knows nothing of other workers' models.
template <TorchModule M>
class LocalModel : public M {
 public:
  LocalModel(M model, Rank rank, std::uint16_t number) : M{std::move(model)}, rank_{rank}, number_{number} {}

  /// Of the worker that trains it.
  [[nodiscard]] auto rank() const noexcept -> Rank { return rank_; }
  /// From 1, in the order in which the worker has prepared its models.
  [[nodiscard]] auto number() const noexcept -> std::uint16_t { return number_; }

 private:
  Rank rank_;
  std::uint16_t number_;
};

namespace detail {

template <class M>
inline constexpr bool is_local_model = false;
template <class M>
inline constexpr bool is_local_model<LocalModel<M>> = true;
template <class M>
inline constexpr bool is_local_model<M const> = is_local_model<M>;
template <class M>
inline constexpr bool is_local_model<M&> = is_local_model<M>;

/// The holder that a local model is, by itself; any other model as it is.
template <TorchModule M>
[[nodiscard]] auto as_no_local_model(M model) -> M {
  return model;
}
template <TorchModule M>
[[nodiscard]] auto as_no_local_model(LocalModel<M> model) -> M {
  return model;
}

/// A shared_ptr in a holder, of which a class can be derived; another holder as it is.
template <TorchModule M>
[[nodiscard]] auto in_holder(M model) {
  if constexpr (is_shared_module<M>) {
    return torch::nn::ModuleHolder<typename M::element_type>{std::move(model)};
  } else {
    return model;
  }
}

}  // namespace detail

}  // namespace raytrain
