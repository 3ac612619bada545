// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include <raytrain/collective/collective.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/metrics.hpp>
#include <raytrain/launch/object_exchange.hpp>
#include <raytrain/train/detail/rank_average.hpp>

namespace raytrain::detail {

/// One rank's metrics, to be averaged.
struct RankMetrics {
  double samples{};
  std::vector<std::string> names{};
  std::vector<std::string> fixed{};  ///< By metric: its value and type; empty for a double.
  std::vector<double> doubles{};     ///< By metric; 0 for another one.
  void serialize(auto& archive) { archive(samples, names, fixed, doubles); }
};

/// In rank order.
RAYTRAIN_INLINE auto mean_of(std::span<RankValue const> all) -> double {
  double sum = 0;
  double samples = 0;
  RankValue const* first = nullptr;
  auto are_same = true;
  for (auto const& each : all) {
    if (each.samples == 0) continue;
    if (first == nullptr) first = &each;
    are_same = are_same && each.value == first->value;
    sum += each.value * each.samples;
    samples += each.samples;
  }
  if (first == nullptr) return std::numeric_limits<double>::quiet_NaN();
  return are_same ? first->value : sum / samples;
}

RAYTRAIN_INLINE void check_samples(std::size_t rank, double samples) {
  if (samples >= 0) return;
  throw Error{Errc::invalid_call, "TrainContext::average", fmt::format("rank {} has {} samples", rank, samples),
              "give the number of samples that the value is the mean of, 0 for none"};
}

RAYTRAIN_INLINE auto to_fixed(MetricValue const& value) -> std::string {
  return std::visit(
      []<class T>(T const& plain) -> std::string {
        if constexpr (std::is_same_v<T, double>) return {};
        if constexpr (std::is_same_v<T, std::string>) return fmt::format("'{}'", plain);
        return fmt::format("{}", plain);
      },
      value);
}

RAYTRAIN_INLINE auto average_over_ranks(Collective& collective, RankValue const& own) -> double {
  std::array const mine{own.value, own.samples};
  std::vector<double> all(2 * std::size_t{collective.size().value});
  collective.all_gather(std::span<double const>{mine}, std::span<double>{all});
  std::vector<RankValue> values;
  for (std::size_t rank = 0; 2 * rank < all.size(); ++rank) {
    check_samples(rank, all[2 * rank + 1]);
    values.push_back({all[2 * rank], all[2 * rank + 1]});
  }
  return mean_of(values);
}

RAYTRAIN_INLINE auto average_over_ranks(Collective& collective, Metrics const& metrics, double samples) -> Metrics {
  RankMetrics mine{.samples = samples};
  for (auto const& [name, value] : metrics) {
    auto const* const number = std::get_if<double>(&value);
    mine.names.push_back(name);
    mine.fixed.push_back(to_fixed(value));
    mine.doubles.push_back(number == nullptr ? 0 : *number);
  }
  auto const all = all_gather_objects(collective, mine);
  auto const refuse = [](std::string const& happened) {
    throw Error{Errc::rank_mismatch, "TrainContext::average", happened,
                "give the same metrics on every rank, and a double where values may differ"};
  };
  auto const& first = all.front();
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    auto const& other = all[rank];
    check_samples(rank, other.samples);
    if (other.names != first.names) {
      refuse(fmt::format("rank 0 gives the metrics {}, and rank {} gives {}", fmt::join(first.names, ", "), rank,
                         fmt::join(other.names, ", ")));
    }
    for (std::size_t i = 0; i < first.fixed.size(); ++i) {
      if (other.fixed[i] == first.fixed[i]) continue;
      auto const text = [](std::string const& fixed) { return fixed.empty() ? "a double" : fixed; };
      refuse(fmt::format("metric '{}' is {} on rank 0, and {} on rank {}", first.names[i], text(first.fixed[i]),
                         text(other.fixed[i]), rank));
    }
  }
  Metrics averages;
  averages.reserve(metrics.size());
  std::vector<RankValue> values(all.size());
  std::size_t i = 0;
  for (auto const& [name, value] : metrics) {
    for (std::size_t rank = 0; rank < all.size(); ++rank) values[rank] = {all[rank].doubles[i], all[rank].samples};
    averages.set(name, first.fixed[i].empty() ? MetricValue{mean_of(values)} : value);
    ++i;
  }
  return averages;
}

}  // namespace raytrain::detail
