// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/backend/torch/detail/stored_tensors.hpp>
#include <raytrain/backend/torch/lr_schedule.hpp>
#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/message/json.hpp>

namespace raytrain::detail {

/// What schedule.json holds.
struct StoredSchedule {
  std::string kind;
  std::string settings;
  std::vector<double> base_rates;
  std::int64_t steps_done{};
  std::vector<double> progress;
  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(kind), CEREAL_NVP(settings), CEREAL_NVP(base_rates), CEREAL_NVP(steps_done), CEREAL_NVP(progress));
  }
};

RAYTRAIN_TORCH_INLINE void add_rates(Metrics& metrics, std::vector<double> const& rates) {
  for (std::size_t i = 0; i < rates.size(); ++i) {
    auto const name = i == 0 ? std::string{"lr"} : fmt::format("lr_{}", i);
    if (!metrics.contains(name)) metrics.set(name, rates[i]);
  }
}

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_TORCH_INLINE LrSchedule::LrSchedule(torch::optim::Optimizer& optimizer, std::string_view kind,
                                             std::string settings)
    : optimizer_{optimizer}, kind_{kind}, settings_{std::move(settings)} {
  auto const refuse = [&](std::string happened) {
    throw Error{Errc::invalid_config, "a " + kind_ + " of an optimizer", std::move(happened),
                "make it of an optimizer as LibTorch's, which has the parameters of a model"};
  };
  auto& groups = optimizer.param_groups();
  if (std::ranges::all_of(groups, [](auto const& group) { return group.params().empty(); })) {
    refuse("it has no parameters");
  }
  try {
    for (auto& group : groups) base_rates_.push_back(group.options().get_lr());
  } catch (c10::Error const&) {
    refuse("its options have no learning rate");
  }
}

RAYTRAIN_TORCH_INLINE void LrSchedule::set_rates() {
  auto const now = factor();
  rates_->clear();
  for (std::size_t i = 0; i < base_rates_.size(); ++i) {
    rates_->push_back(base_rates_[i] * now);
    optimizer_.param_groups()[i].options().set_lr(rates_->back());
  }
}

RAYTRAIN_TORCH_INLINE void LrSchedule::add_to(CheckpointDraft& draft, std::string const& file) const {
  draft.add(file, write_json(detail::StoredSchedule{kind_, settings_, base_rates_, steps_done_, progress()}));
}

RAYTRAIN_TORCH_INLINE auto LrSchedule::load_from(Checkpoint const& checkpoint, std::string const& file) -> std::string {
  auto const path = checkpoint.location() + "/" + file;
  auto const bytes = checkpoint.read(file);
  auto const stored = read_json<detail::StoredSchedule>(text_of(bytes), path);
  auto const refuse = [&](std::string happened) {
    throw Error{Errc::backend, "loading " + path, std::move(happened), detail::state_remedy};
  };
  if (stored.kind != kind_) {
    refuse("it is of the schedule " + stored.kind + ", and this one is a " + kind_);
  }
  if (stored.base_rates.size() != base_rates_.size()) {
    refuse(fmt::format("it is of {} parameter groups, and this optimizer has {}", stored.base_rates.size(),
                       base_rates_.size()));
  }
  if (stored.progress.size() != progress().size() || stored.steps_done < 0) {
    refuse("what it holds of the progress is none of a " + kind_);
  }
  steps_done_ = stored.steps_done;
  set_progress(stored.progress);
  set_rates();
  if (stored.settings == settings_ && stored.base_rates == base_rates_) return {};
  return fmt::format(
      "the schedule {} goes on at step {} with other settings than the checkpoint's: {}, base rates {}; they were {}, "
      "base rates {}",
      kind_, steps_done_, settings_, fmt::join(base_rates_, ", "), stored.settings, fmt::join(stored.base_rates, ", "));
}

}  // namespace raytrain
