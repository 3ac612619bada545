// SPDX-License-Identifier: Apache-2.0
// The bound: two threads that know nothing but each other's array and a flag, with the vector width and the prefetch
// distance that are fastest here for each size. float32, sum, all_reduce.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <raytrain/collective/local.hpp>
#include <raytrain/collective/local_group.hpp>
#include <raytrain/core/usable_cores.hpp>

#include "cores.hpp"
#include "options.hpp"
#include "program.hpp"

namespace {

constexpr std::uint32_t ranks = 2;
constexpr std::size_t line_size = 64 / sizeof(float);  // of a cache line

using Sum = void (*)(float* mine, float* other, std::size_t count, std::size_t ahead_lines);

/// Both arrays become their sum. Lines of the other thread's array are asked for ahead, and for writing at once.
[[gnu::always_inline]] inline void sum_lines(float* __restrict mine, float* __restrict other, std::size_t count,
                                             std::size_t ahead_lines) {
  std::size_t i = 0;
  for (; i + line_size <= count; i += line_size) {
    if (ahead_lines > 0) __builtin_prefetch(other + i + ahead_lines * line_size, 1);
    for (std::size_t lane = i; lane < i + line_size; ++lane) mine[lane] = other[lane] = mine[lane] + other[lane];
  }
  for (; i < count; ++i) mine[i] = other[i] = mine[i] + other[i];
}

// The same for each vector width that the processor may have.
void sum_16(float* a, float* b, std::size_t count, std::size_t ahead) { sum_lines(a, b, count, ahead); }
#if defined(__x86_64__)
[[gnu::target("avx2")]] void sum_32(float* a, float* b, std::size_t count, std::size_t ahead) {
  sum_lines(a, b, count, ahead);
}
[[gnu::target("avx512f")]] void sum_64(float* a, float* b, std::size_t count, std::size_t ahead) {
  sum_lines(a, b, count, ahead);
}
#endif

auto sums_of_this_processor() -> std::vector<Sum> {
  std::vector<Sum> sums{sum_16};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) sums.push_back(sum_32);
  if (__builtin_cpu_supports("avx512f")) sums.push_back(sum_64);
#endif
  return sums;
}

/// What two threads need to meet, and no more.
class Meeting {
 public:
  void meet(std::uint32_t rank) {
    auto& mine = flags_[rank].round;
    auto const& other = flags_[1 - rank].round;
    auto const round = mine.load(std::memory_order_relaxed) + 1;
    mine.store(round, std::memory_order_release);
    for (int spins = 0; other.load(std::memory_order_acquire) < round; ++spins) {
      if (spins > 10'000) std::this_thread::yield();
    }
  }
  std::array<std::atomic<float*>, ranks> arrays{};

 private:
  struct alignas(128) Flag {
    std::atomic<std::uint64_t> round{0};
  };
  std::array<Flag, ranks> flags_;
};

/// A collective whose sum of floats is the kernel; what measures it uses the rest.
class Kernel : public raytrain::LocalCollective {
  using Base = raytrain::LocalCollective;

 public:
  Kernel(std::shared_ptr<raytrain::LocalGroup> group, raytrain::Rank rank, Meeting& meeting, Sum sum, std::size_t ahead)
      : Base{std::move(group), rank}, meeting_{meeting}, sum_{sum}, ahead_{ahead} {}

  using Base::all_reduce;

  void barrier() { meeting_.meet(rank().value); }
  void all_reduce(std::span<float> values, raytrain::ReduceOp) {
    auto const me = rank().value;
    meeting_.arrays[me].store(values.data(), std::memory_order_relaxed);
    meeting_.meet(me);
    auto const half = (values.size() / ranks + line_size - 1) / line_size * line_size;
    auto const begin = me == 0 ? 0 : std::min(half, values.size());
    auto const end = me == 0 ? std::min(half, values.size()) : values.size();
    auto* const other = meeting_.arrays[1 - me].load(std::memory_order_relaxed);
    sum_(values.data() + begin, other + begin, end - begin, ahead_);
    meeting_.meet(me);
  }

 private:
  Meeting& meeting_;
  Sum sum_;
  std::size_t ahead_;
};

/// Both threads measure one variant.
auto run_variant(Options const& options, std::size_t bytes, Sum sum, std::size_t ahead, std::vector<int> const& cores)
    -> Row {
  auto const group = std::make_shared<raytrain::LocalGroup>(raytrain::WorldSize{ranks});
  Meeting meeting;
  Row row;
  auto const work = [&](std::uint32_t rank) {
    bind(rank, ranks, cores);
    Kernel kernel{group, raytrain::Rank{rank}, meeting, sum, ahead};
    auto const mine = measure<float>(kernel, options, bytes);
    if (rank == 0) row = mine;
  };
  std::jthread second{[&] { work(1); }};
  std::jthread first{[&] { work(0); }};
  first.join();
  second.join();
  return row;
}

}  // namespace

auto main(int argc, char** argv) -> int {
  Options options;
  CLI::App app{"Measures the fastest sum of two threads' arrays that can be written by hand."};
  add_options(app, options);
  return run_program(app, options, argc, argv, [&] {
    if (options.collective != "all_reduce" || options.type != "float32" || options.op != "sum") {
      throw std::invalid_argument{"the kernel sums float32 arrays with all_reduce and nothing else"};
    }
    auto const cores = raytrain::usable_cores();
    Setting const setting{"kernel", ranks, "threads of one process"};
    print_head(setting, options);
    std::vector<Row> rows;
    for (auto const bytes : options.all_sizes()) {
      Row best;
      for (auto const sum : sums_of_this_processor()) {
        for (std::size_t const ahead : {0, 2, 8, 24}) {
          auto const row = run_variant(options, bytes, sum, ahead, cores);
          if (best.count == 0 || row.p50_us < best.p50_us) best = row;
        }
      }
      print_row(best, options);
      rows.push_back(best);
    }
    return conclude(rows, setting, options);
  });
}
