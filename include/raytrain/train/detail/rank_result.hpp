// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include <raytrain/checkpoint/checkpoint_store.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/train/result.hpp>

namespace raytrain::detail {

/// What `fit()` gives on rank 0, for the others, which read the history from the run's folder.
[[nodiscard]] auto ended_with(Result const& result) -> Ended;

/// The inverse; checkpoints are opened in this process's `store`, if it has one. Errors: what `fit()` threw on rank 0.
[[nodiscard]] auto result_of(Ended& ended, CheckpointStore const* store) -> Result;

/// Runs `fit` and returns or throws what it does. Before that `send` gets it for the other processes.
auto fit_and_tell_others(std::function<void(Ended)> const& send, std::function<Result()> const& fit) -> Result;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/detail/rank_result-inl.hpp>
#endif
