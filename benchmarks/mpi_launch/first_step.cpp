// SPDX-License-Identifier: Apache-2.0
// A training whose first step comes at once: prints when the last rank was in it, as the clock of the host tells it,
// which is the same for all its processes. Started by mpirun. Argument: the folder of the run.
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <span>
#include <stdexcept>

#include <raytrain/backend/mpi.hpp>
#include <raytrain/trainer.hpp>

namespace {

auto now_ns() -> std::int64_t {
  return std::chrono::nanoseconds{std::chrono::steady_clock::now().time_since_epoch()}.count();
}

void train(raytrain::MpiContext& ctx) {
  std::array<std::int64_t, 1> last_ns{now_ns()};
  ctx.collective().all_reduce(std::span<std::int64_t>{last_ns}, raytrain::ReduceOp::max);
  if (ctx.world_rank() != raytrain::Rank{0}) return;
  std::printf("{\"ranks\": %u, \"first_step_ns\": %lld}\n", ctx.world_size().value, static_cast<long long>(last_ns[0]));
}

}  // namespace

auto main(int argc, char** argv) -> int try {
  if (argc != 2) throw std::invalid_argument{"usage: first_step FOLDER"};
  raytrain::Trainer<raytrain::MpiBackend> trainer{train, {.run = {.name = "first_step", .storage_path = argv[1]}}};
  return trainer.fit().state == raytrain::RunState::finished ? 0 : 1;
} catch (std::exception const& error) {
  std::fprintf(stderr, "first_step: %s\n", error.what());
  return 1;
}
