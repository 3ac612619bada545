// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>

#include <raytrain/backend/torch/averaged_model.hpp>
#include <raytrain/backend/torch/detail/stored_tensors.hpp>
#include <raytrain/backend/torch/detail/torch_call.hpp>
#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/checkpoint/safetensors.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain {

RAYTRAIN_TORCH_INLINE void AveragedModelConfig::validate() const {
  if (!decay || (*decay >= 0 && *decay < 1)) return;
  throw Error{Errc::invalid_config, "AveragedModelConfig::decay",
              fmt::format("must be from 0 to below 1 (got {})", *decay),
              "write {.decay = 0.999}, or nothing for the mean of all updates"};
}

RAYTRAIN_TORCH_INLINE void AveragedModel::hold(torch::nn::Module const& module) {
  config_.validate();
  auto const refuse = [](std::string happened) {
    throw Error{Errc::backend, "averaging a model", std::move(happened), "average a model of dense tensors"};
  };
  auto const add = [&](auto const& items) {
    for (auto const& item : items) {
      auto const& tensor = item.value();
      if (!tensor.defined() || std::ranges::any_of(own_, [&](auto const& own) { return own.is_same(tensor); })) {
        continue;
      }
      if (!detail::is_storable(tensor) || !can_name_tensor(item.key())) {
        refuse("a checkpoint cannot hold its tensor '" + shown_tensor_name(item.key()) + "'");
      }
      own_.push_back(tensor);
      // An average of 16 bits would not move by the small share of a new weight.
      auto const is_short = tensor.is_floating_point() && tensor.element_size() == 2;
      averages_.push_back({item.key(), tensor.detach().to(is_short ? at::kFloat : tensor.scalar_type(),
                                                          /*non_blocking=*/false, /*copy=*/true)});
    }
  };
  add(module.named_parameters());
  if (own_.empty()) refuse("it has no parameters");
  if (config_.use_buffers) add(module.named_buffers());
}

RAYTRAIN_TORCH_INLINE void AveragedModel::update() {
  check_not_in_place("AveragedModel::update");
  torch::NoGradGuard const no_grad;
  auto const weight = config_.decay ? 1 - *config_.decay : 1 / static_cast<double>(updates_ + 1);
  for (std::size_t i = 0; i < own_.size(); ++i) {
    auto& average = averages_[i].tensor;
    if (updates_ == 0 || !average.is_floating_point()) {
      average.copy_(own_[i]);
    } else {
      average.add_(own_[i].sub(average), weight);
    }
  }
  ++updates_;
}

RAYTRAIN_TORCH_INLINE auto AveragedModel::put_in_place() -> InPlace {
  check_not_in_place("AveragedModel::put_in_place");
  return InPlace{*this};
}

namespace detail {

/// On a device versions tell whether parameters have changed: those that come back must have the ones that they had.
inline void copy_uncounted(at::Tensor const& from, at::Tensor const& to) {
  (to.is_cpu() ? to : to.variable_data()).copy_(from);
}

}  // namespace detail

RAYTRAIN_TORCH_INLINE void AveragedModel::give() {
  torch::NoGradGuard const no_grad;
  if (updates_ > 0) {
    std::vector<at::Tensor> copies;
    for (auto const& own : own_) copies.push_back(own.detach().clone());
    trained_ = std::move(copies);
    for (std::size_t i = 0; i < own_.size(); ++i) detail::copy_uncounted(averages_[i].tensor, own_[i]);
  }
  is_in_place_ = true;
}

RAYTRAIN_TORCH_INLINE void AveragedModel::take_back() {
  torch::NoGradGuard const no_grad;
  for (std::size_t i = 0; i < trained_.size(); ++i) detail::copy_uncounted(trained_[i], own_[i]);
  trained_.clear();
  is_in_place_ = false;
}

RAYTRAIN_TORCH_INLINE void AveragedModel::add_to(CheckpointDraft& draft, std::string const& file) const {
  check_not_in_place("storing an AveragedModel");
  detail::torch_call("storing an AveragedModel", [&] {
    auto now = averages_;
    for (std::size_t i = 0; i < now.size() && updates_ == 0; ++i) {
      now[i].tensor = own_[i].detach().to(now[i].tensor.scalar_type());
    }
    detail::add_tensors(draft, file, now,
                        {{"format", "pt"}, {"updates", std::to_string(updates_)}, {"decay", decay_text()}});
  });
}

RAYTRAIN_TORCH_INLINE auto AveragedModel::load_from(Checkpoint const& checkpoint, std::string const& file)
    -> std::string {
  check_not_in_place("loading an AveragedModel");
  auto const attempted = "loading " + checkpoint.location() + "/" + file;
  auto const stored = checkpoint.view(file);
  auto metadata = read_tensor_index(stored.view(), attempted).metadata;
  auto const& count = metadata["updates"];
  std::int64_t updates = -1;
  auto const read = std::from_chars(count.data(), count.data() + count.size(), updates);
  if (read.ec != std::errc{} || read.ptr != count.data() + count.size() || updates < 0) {
    throw Error{Errc::corrupt_checkpoint, attempted, "it does not say of how many updates it is the average",
                "name the file of an AveragedModel"};
  }
  detail::fill_tensors(stored.view(), averages_, attempted);
  updates_ = updates;
  if (metadata["decay"] == decay_text()) return {};
  return fmt::format("the average of the model's weights goes on with the decay {}; in the checkpoint it was {}",
                     decay_text(), shown_tensor_name(metadata["decay"]));
}

RAYTRAIN_TORCH_INLINE void AveragedModel::check_not_in_place(char const* attempted) const {
  if (!is_in_place_) return;
  throw Error{Errc::invalid_call, attempted, "the model has the averaged weights instead of those that are trained",
              "end the block in which put_in_place() gave it these"};
}

RAYTRAIN_TORCH_INLINE auto AveragedModel::decay_text() const -> std::string {
  return config_.decay ? fmt::format("{}", *config_.decay) : "unset";
}

}  // namespace raytrain
