// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <raytrain/collective/buffer.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/identifiers.hpp>

#include "measurement.hpp"
#include "options.hpp"
#include "report.hpp"

/// One of several ways to do the same, which are measured in turns of some milliseconds: on a shared machine two cores
/// may be near each other in one moment and far apart in the next.
struct Contender {
  std::string name;
  std::function<void()> fill;
  std::function<void()> run;
  std::function<std::uint64_t()> wrong;
};

/// The sum of all ranks' `values` by `all_reduce`. Every value is a small integer, and every sum exact.
inline auto sum_contender(std::string name, raytrain::Rank rank, raytrain::WorldSize size,
                          raytrain::Buffer<float> values, std::function<void(std::span<float>)> all_reduce)
    -> Contender {
  auto const shared = std::make_shared<raytrain::Buffer<float>>(std::move(values));
  auto const value = [](std::size_t of, std::size_t index) { return static_cast<float>((index + of) % 3); };
  auto const fill = [shared, value, rank] {
    for (std::size_t i = 0; i < shared->size(); ++i) (*shared)[i] = value(rank.value, i);
  };
  auto const wrong = [shared, value, size] {
    std::uint64_t count = 0;
    for (std::size_t i = 0; i < shared->size(); ++i) {
      float sum = 0;
      for (std::uint32_t of = 0; of < size.value; ++of) sum += value(of, i);
      count += (*shared)[i] == sum ? 0U : 1U;
    }
    return count;
  };
  return {std::move(name), fill, [shared, all_reduce = std::move(all_reduce)] { all_reduce(shared->span()); }, wrong};
}

/// The same by a collective of raytrain's.
template <class C>
auto sum_contender(std::string name, C& collective, raytrain::Buffer<float> values) -> Contender {
  return sum_contender(std::move(name), collective.rank(), collective.size(), std::move(values),
                       [&](auto array) { collective.all_reduce(array, raytrain::ReduceOp::sum); });
}

/// Memory of the program's own, in large pages as what a collective allocates.
inline auto own_array(std::size_t bytes) -> raytrain::Buffer<float> {
  return {raytrain::detail::allocate_pages(bytes), bytes / sizeof(float)};
}

/// Of one size: by contender and turn, the median time in us of the slowest rank.
struct Contest {
  std::size_t bytes = 0;
  std::vector<std::string> names{};
  std::vector<std::vector<double>> turns_us{};
};

/// Every rank has the same contenders, and gets the same result. `judge` lets the ranks begin together and compare.
///
/// Errors: `std::runtime_error` when a result is wrong.
template <class C>
auto contest(C& judge, std::vector<Contender> const& contenders, Options const& options, std::size_t bytes) -> Contest {
  using Clock = std::chrono::steady_clock;
  auto const seconds_of_one = [&](Contender const& each) {
    each.fill();
    judge.barrier();
    auto const start = Clock::now();
    each.run();
    return std::chrono::duration<double>{Clock::now() - start}.count();
  };
  Contest result{bytes};
  std::vector<std::size_t> iterations;
  for (auto const& each : contenders) {
    double probe_s = 0;
    for (int i = 0; i < options.warm_up; ++i) probe_s = seconds_of_one(each);
    // Rank 0 decides, since all must do as many.
    std::array<double, 1> wanted{std::clamp(options.seconds / options.turns / std::max(probe_s, 1e-6), 1.0, 1000.0)};
    judge.broadcast(std::span<double>{wanted}, raytrain::Rank{0});
    iterations.push_back(static_cast<std::size_t>(wanted[0]));
    result.names.push_back(each.name);
    result.turns_us.emplace_back();
  }
  for (int turn = 0; turn < options.turns; ++turn) {
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      std::vector<double> times_s(iterations[i]);
      for (auto& time_s : times_s) time_s = seconds_of_one(contenders[i]);
      result.turns_us[i].push_back(median_us(judge, std::move(times_s)));
    }
  }
  for (auto const& each : contenders) {
    std::array<std::uint64_t, 1> wrong{each.wrong()};
    judge.all_reduce(std::span<std::uint64_t>{wrong}, raytrain::ReduceOp::sum);
    if (wrong[0] != 0)
      throw std::runtime_error{fmt::format("{}: {} wrong elements at {} bytes", each.name, wrong[0], bytes)};
  }
  return result;
}

/// Those that were fastest in one turn, in the order in which they are.
template <class C>
auto fastest(std::size_t count, C& judge, std::vector<Contender> const& contenders, Options options, std::size_t bytes)
    -> std::vector<Contender> {
  options.turns = 1;
  auto const turns_us = contest(judge, contenders, options, bytes).turns_us;
  auto us = turns_us;
  std::ranges::sort(us);
  std::vector<Contender> fastest;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    if (turns_us[i] <= us[std::min(count, us.size()) - 1]) fastest.push_back(contenders[i]);
  }
  return fastest;
}

inline void print(Contest const& contest) {
  fmt::print("{:>12} B:", contest.bytes);
  for (std::size_t i = 0; i < contest.names.size(); ++i) {
    auto turns_us = contest.turns_us[i];
    std::ranges::sort(turns_us);
    fmt::print("  {} {:.2f} us", contest.names[i], turns_us[turns_us.size() / 2]);
  }
  fmt::print("\n");
  std::fflush(stdout);
}

/// Writes times by size and contender to the file that the options name.
inline void write(std::vector<Contest> const& contests, Options const& options) {
  if (options.json.empty()) return;
  std::string text = "{";
  for (auto const& contest : contests) {
    text += fmt::format(R"({}"{}": {{)", text.size() > 1 ? ", " : "", contest.bytes);
    for (std::size_t i = 0; i < contest.names.size(); ++i) {
      text +=
          fmt::format(R"({}"{}": [{:.4f}])", i > 0 ? ", " : "", contest.names[i], fmt::join(contest.turns_us[i], ", "));
    }
    text += "}";
  }
  write_file(options.json, text + "}\n");
}
