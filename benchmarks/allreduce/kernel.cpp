// SPDX-License-Identifier: Apache-2.0
// The bound: threads that know nothing but each other's arrays. Two of them have a barrier of a flag each, and the
// vector width and the prefetch distance that are fastest here for each size; more, which may be more than there are
// cores, have std::barrier and the fastest vector width. float32, sum, all_reduce; in turns with LocalCollective.
#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <raytrain/collective/local.hpp>
#include <raytrain/core/usable_cores.hpp>

#include "contest.hpp"
#include "cores.hpp"
#include "options.hpp"
#include "program.hpp"

namespace {

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

/// The arrays of all threads and a barrier, and no more.
class SharedState {
 public:
  explicit SharedState(std::uint32_t ranks) : arrays(ranks), barrier_{ranks} {}

  void wait(std::uint32_t rank) {
    if (arrays.size() != 2) return barrier_.arrive_and_wait();
    auto& mine = flags_[rank].round;
    auto const& other = flags_[1 - rank].round;
    auto const round = mine.load(std::memory_order_relaxed) + 1;
    mine.store(round, std::memory_order_release);
    for (int spins = 0; other.load(std::memory_order_acquire) < round; ++spins) {
      if (spins > 10'000) std::this_thread::yield();
    }
  }
  std::vector<std::atomic<float*>> arrays;

 private:
  struct alignas(128) Flag {
    std::atomic<std::uint64_t> round{0};
  };
  std::array<Flag, 2> flags_;
  std::barrier<> barrier_;
};

using Arrays = std::vector<float*>;
using SumOfMany = void (*)(Arrays const& arrays, std::size_t begin, std::size_t end);

/// All arrays become their sum, by blocks of 4 KiB, whose sum stays in the core's first cache.
[[gnu::always_inline]] inline void sum_blocks(Arrays const& arrays, std::size_t begin, std::size_t end) {
  constexpr std::size_t block_size = 4096 / sizeof(float);
  alignas(64) std::array<float, block_size> sum;
  for (auto at = begin; at < end; at += block_size) {
    auto const size = std::min(block_size, end - at);
    std::memcpy(sum.data(), arrays[0] + at, size * sizeof(float));
    for (std::size_t other = 1; other < arrays.size(); ++other) {
      auto const* const array = arrays[other] + at;
      std::size_t i = 0;
      for (; i + line_size <= size; i += line_size)
        for (std::size_t lane = i; lane < i + line_size; ++lane) sum[lane] += array[lane];
      for (; i < size; ++i) sum[i] += array[i];
    }
    for (auto* const array : arrays) std::memcpy(array + at, sum.data(), size * sizeof(float));
  }
}

void sum_many_16(Arrays const& arrays, std::size_t begin, std::size_t end) { sum_blocks(arrays, begin, end); }
#if defined(__x86_64__)
[[gnu::target("avx2")]] void sum_many_32(Arrays const& arrays, std::size_t begin, std::size_t end) {
  sum_blocks(arrays, begin, end);
}
[[gnu::target("avx512f")]] void sum_many_64(Arrays const& arrays, std::size_t begin, std::size_t end) {
  sum_blocks(arrays, begin, end);
}
#endif

auto sums_of_many() -> std::vector<SumOfMany> {
  std::vector<SumOfMany> sums{sum_many_16};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) sums.push_back(sum_many_32);
  if (__builtin_cpu_supports("avx512f")) sums.push_back(sum_many_64);
#endif
  return sums;
}

struct Variant {
  std::string name;
  Sum sum;
  std::size_t lines_ahead;
  SumOfMany sum_of_many;
};

class Kernel {
 public:
  Kernel(raytrain::Rank rank, raytrain::WorldSize size, SharedState& shared, Variant variant)
      : rank_{rank}, size_{size}, shared_{shared}, variant_{std::move(variant)} {}

  [[nodiscard]] auto rank() const noexcept -> raytrain::Rank { return rank_; }
  [[nodiscard]] auto size() const noexcept -> raytrain::WorldSize { return size_; }

  void all_reduce(std::span<float> values, raytrain::ReduceOp) {
    auto const me = rank_.value;
    auto const ranks = shared_.arrays.size();
    shared_.arrays[me].store(values.data(), std::memory_order_relaxed);
    shared_.wait(me);
    auto const slice = (values.size() / ranks + line_size - 1) / line_size * line_size;
    auto const begin = std::min(me * slice, values.size());
    auto const end = me + 1 == ranks ? values.size() : std::min(begin + slice, values.size());
    if (ranks == 2) {
      auto* const other = shared_.arrays[1 - me].load(std::memory_order_relaxed);
      variant_.sum(values.data() + begin, other + begin, end - begin, variant_.lines_ahead);
    } else {
      variant_.sum_of_many({shared_.arrays.begin(), shared_.arrays.end()}, begin, end);
    }
    shared_.wait(me);
  }

 private:
  raytrain::Rank rank_;
  raytrain::WorldSize size_;
  SharedState& shared_;
  Variant variant_;
};

auto variants(std::uint32_t workers) -> std::vector<Variant> {
  std::vector<Variant> variants;
  std::size_t width = 16;
  if (workers > 2) {
    for (auto const sum : sums_of_many()) {
      variants.push_back({fmt::format("std::barrier and kernel of {} bytes", width), nullptr, 0, sum});
      width *= 2;
    }
    return variants;
  }
  for (auto const sum : sums_of_this_processor()) {
    for (std::size_t const lines_ahead : {0, 2, 8, 24})
      variants.push_back(
          {fmt::format("kernel of {} bytes, {} lines ahead", width, lines_ahead), sum, lines_ahead, nullptr});
    width *= 2;
  }
  return variants;
}

auto run_contest(Options const& options, std::size_t bytes, std::vector<int> const& cores) -> Contest {
  auto const workers = options.workers;
  auto const group = std::make_shared<raytrain::LocalGroup>(raytrain::WorldSize{workers});
  SharedState shared{workers};
  Contest result;
  std::vector<std::jthread> threads;
  for (std::uint32_t worker = 0; worker < workers; ++worker) {
    threads.emplace_back([&, worker] {
      bind(worker, workers, cores);
      raytrain::LocalCollective collective{group, raytrain::Rank{worker}};
      std::list<Kernel> kernels;
      std::vector<Contender> contenders;
      for (auto const& variant : variants(workers)) {
        kernels.emplace_back(collective.rank(), collective.size(), shared, variant);
        contenders.push_back(sum_contender(variant.name, kernels.back(), own_array(bytes)));
      }
      contenders = fastest(2, collective, contenders, options, bytes);
      contenders.push_back(sum_contender("raytrain", collective, own_array(bytes)));
      auto mine = contest(collective, contenders, options, bytes);
      if (worker == 0) result = std::move(mine);
    });
  }
  threads.clear();
  return result;
}

}  // namespace

auto main(int argc, char** argv) -> int {
  Options options;
  CLI::App app{"Measures sums of threads' arrays, by raytrain and by the fastest kernels that can be written by hand."};
  add_contest_options(app, options);
  app.add_option("--workers", options.workers, "threads of this process")->check(CLI::Range(2U, 4096U));
  return run_program(app, options, argc, argv, [&] {
    auto const cores = raytrain::usable_cores();
    std::vector<Contest> contests;
    for (auto const bytes : options.all_sizes()) {
      contests.push_back(run_contest(options, bytes, cores));
      print(contests.back());
    }
    write(contests, options);
    return 0;
  });
}
