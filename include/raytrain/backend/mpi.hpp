// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <utility>

#include <raytrain/backend/backend.hpp>
#include <raytrain/backend/mpi/array_checkpoint.hpp>
#include <raytrain/backend/mpi/blocks_checkpoint.hpp>
#include <raytrain/backend/mpi/mpi_context.hpp>
#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/train/early_stopping.hpp>
#include <raytrain/train/worker_setup.hpp>

namespace raytrain {

/// Programs that bring their own numerics, as those written for MPI do: plain arrays, replicated, averaged and reduced.
///
/// It runs on threads where no MPI is installed. On ranks a program runs that includes <raytrain/launch/ranks.hpp>.
class MpiBackend {
 public:
  struct Config {};
  using Context = MpiContext;

  static constexpr std::string_view name = "mpi";
  static constexpr Launch default_launch = Launch::threads;

  explicit MpiBackend(Config const&) {}

  void on_start(ScalingConfig const& scaling) { scaling.refuse_gpus(name); }
  auto make_context(WorkerSetup setup) const -> MpiContext { return MpiContext{std::move(setup)}; }
  void on_shutdown() noexcept {}
};

static_assert(Backend<MpiBackend>);

}  // namespace raytrain
