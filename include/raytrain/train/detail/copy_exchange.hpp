// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <raytrain/checkpoint/checkpoint_copies.hpp>
#include <raytrain/config/checkpoint_config.hpp>
#include <raytrain/train/worker_setup.hpp>

namespace raytrain::detail {

/// Where a process keeps copies, if `CheckpointConfig::memory_copies` asks for some; else null.
[[nodiscard]] auto copies_as(CheckpointConfig const& config) -> std::shared_ptr<CheckpointCopies>;

/// Where an attempt after the first goes on from a checkpoint: each file of it that is the same on every rank goes from
/// the lowest rank that has it in memory to those that have not. A group operation; nothing but one small all_gather
/// where all have the same files.
///
/// Errors: as `Collective`.
void exchange_copies(WorkerSetup const& setup);

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/train/detail/copy_exchange-inl.hpp>
#endif
