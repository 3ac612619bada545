// SPDX-License-Identifier: Apache-2.0
// Operations of a collective whose results are checked, bit by bit. Every rank calls a `wrong_in_...`; it returns how
// many elements of this rank's result are wrong. They depend on no kind of world, so that they are compiled once.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <random>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/float16.hpp>
#include <raytrain/core/identifiers.hpp>

namespace raytrain::testing {

inline constexpr ReduceOp all_ops[] = {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max,
                                       ReduceOp::product};

/// What stores 16 bits and is reduced in float.
template <class T>
concept StoredIn16Bits = std::same_as<T, Float16> || std::same_as<T, BFloat16>;

/// The value of an element, as a function of where it is: any rank can say what another one has.
template <class T>
auto value_at(std::uint64_t seed, std::size_t rank, std::size_t index) -> T {
  auto bits = seed * 0x9E3779B97F4A7C15U + rank * 0xBF58476D1CE4E5B9U + index * 0x94D049BB133111EBU;
  bits = (bits ^ (bits >> 31U)) * 0xD6E8FEB86659FD93U;
  bits ^= bits >> 32U;
  if constexpr (std::floating_point<T>) {
    // Exponents far enough apart that the order of a sum shows in its bits.
    auto const power = static_cast<T>(1U << ((bits >> 40U) % 12)) / (1U << 30U);
    return static_cast<T>(static_cast<std::int32_t>(bits)) * power;
  } else if constexpr (StoredIn16Bits<T>) {
    return T{value_at<float>(seed, rank, index)};
  } else {
    return static_cast<T>(bits);
  }
}

/// What the reduction of that element is before it is rounded to `T`, by the plainest means.
template <class T, class Computed>
auto reduced_at(std::uint64_t seed, std::size_t ranks, std::size_t index, ReduceOp op) -> Computed {
  auto result = static_cast<Computed>(value_at<T>(seed, 0, index));
  for (std::size_t rank = 1; rank < ranks; ++rank) {
    auto const next = static_cast<Computed>(value_at<T>(seed, rank, index));
    if (op == ReduceOp::min) {
      if (next < result) result = next;
    } else if (op == ReduceOp::max) {
      if (next > result) result = next;
    } else if constexpr (std::integral<T>) {
      auto const [a, b] = std::pair{static_cast<std::uint64_t>(result), static_cast<std::uint64_t>(next)};
      result = static_cast<T>(op == ReduceOp::product ? a * b : a + b);
    } else if (op == ReduceOp::product) {
      result = result * next;
    } else {
      result = result + next;
    }
  }
  if (op != ReduceOp::average) return result;
  if constexpr (std::unsigned_integral<T>) {
    return static_cast<T>(std::uint64_t{result} / ranks);
  } else if constexpr (std::integral<T>) {
    return static_cast<T>(std::int64_t{result} / static_cast<std::int64_t>(ranks));
  } else {
    return result / static_cast<Computed>(ranks);
  }
}

template <class T>
auto expected_at(std::uint64_t seed, std::size_t ranks, std::size_t index, ReduceOp op) -> T {
  if constexpr (StoredIn16Bits<T>) {
    return T{reduced_at<T, float>(seed, ranks, index, op)};
  } else {
    return reduced_at<T, T>(seed, ranks, index, op);
  }
}

/// A rank's array; it begins where arrays of other ranks do not, seen from a cache line.
template <class T>
class Array {
 public:
  Array(std::size_t size, Rank rank) : offset_{(size + rank.value) % 3}, memory_(size + 3) {}
  auto span() -> std::span<T> { return std::span<T>{memory_}.subspan(offset_, memory_.size() - 3); }

 private:
  std::size_t offset_;
  std::vector<T> memory_;
};

template <class T, class Value>
auto filled(std::size_t size, Rank rank, Value const& value) -> Array<T> {
  Array<T> array{size, rank};
  for (std::size_t i = 0; i < size; ++i) array.span()[i] = value(i);
  return array;
}

/// Number of elements whose bits are not those of `expected(i)`.
template <class T, class Expected>
auto wrong_bits(std::span<T const> array, Expected const& expected) -> std::size_t {
  std::vector<T> values(array.size());
  for (std::size_t i = 0; i < array.size(); ++i) values[i] = expected(i);
  // As a whole first, since a call for each element takes longer than what the collective does.
  if (array.empty() || std::memcmp(values.data(), array.data(), array.size_bytes()) == 0) return 0;
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < array.size(); ++i) {
    wrong += std::memcmp(&values[i], &array[i], sizeof(T)) != 0 ? 1 : 0;
  }
  return wrong;
}

/// An operation whose result is checked: how the ranks' arrays are filled, and what is asked for.
struct CheckedOperation {
  std::uint64_t seed;  ///< Of the values.
  std::size_t size;    ///< Elements of a rank's array, or of its part of one.
  ReduceOp op = ReduceOp::sum;
  Rank root{};
  bool in_place = false;  ///< What a rank sends, or gets a part of, lies where it is in the array of all.
};

template <class T>
auto wrong_in_all_reduce(Collective& collective, CheckedOperation const& what) -> std::size_t {
  auto const rank = collective.rank();
  auto array = filled<T>(what.size, rank, [&](std::size_t i) { return value_at<T>(what.seed, rank.value, i); });
  collective.all_reduce(array.span(), what.op);
  return wrong_bits<T>(array.span(),
                       [&](std::size_t i) { return expected_at<T>(what.seed, collective.size().value, i, what.op); });
}

template <class T>
auto wrong_in_broadcast(Collective& collective, CheckedOperation const& what) -> std::size_t {
  auto const rank = collective.rank();
  auto array = filled<T>(what.size, rank, [&](std::size_t i) { return value_at<T>(what.seed, rank.value, i); });
  collective.broadcast(array.span(), what.root);
  return wrong_bits<T>(array.span(), [&](std::size_t i) { return value_at<T>(what.seed, what.root.value, i); });
}

template <class T>
auto wrong_in_all_gather(Collective& collective, CheckedOperation const& what) -> std::size_t {
  auto const rank = collective.rank();
  auto mine = filled<T>(what.size, rank, [&](std::size_t i) { return value_at<T>(what.seed, rank.value, i); });
  Array<T> all{what.size * collective.size().value, rank};
  auto const own_part = all.span().subspan(rank.value * what.size, what.size);
  if (what.in_place) std::copy(mine.span().begin(), mine.span().end(), own_part.begin());
  collective.all_gather(std::span<T const>{what.in_place ? own_part : mine.span()}, all.span());
  return wrong_bits<T>(all.span(), [&](std::size_t i) { return value_at<T>(what.seed, i / what.size, i % what.size); });
}

template <class T>
auto wrong_in_reduce_scatter(Collective& collective, CheckedOperation const& what) -> std::size_t {
  auto const rank = collective.rank();
  auto const ranks = collective.size().value;
  auto all = filled<T>(what.size * ranks, rank, [&](std::size_t i) { return value_at<T>(what.seed, rank.value, i); });
  Array<T> apart{what.size, rank};
  auto const mine = what.in_place ? all.span().subspan(rank.value * what.size, what.size) : apart.span();
  collective.reduce_scatter(std::span<T const>{all.span()}, mine, what.op);
  return wrong_bits<T>(
      mine, [&](std::size_t i) { return expected_at<T>(what.seed, ranks, rank.value * what.size + i, what.op); });
}

template <class T>
auto wrong_in_reduce(Collective& collective, CheckedOperation const& what) -> std::size_t {
  auto const rank = collective.rank();
  auto array = filled<T>(what.size, rank, [&](std::size_t i) { return value_at<T>(what.seed, rank.value, i); });
  collective.reduce(array.span(), what.op, what.root);
  return wrong_bits<T>(array.span(), [&](std::size_t i) {
    return rank == what.root ? expected_at<T>(what.seed, collective.size().value, i, what.op)
                             : value_at<T>(what.seed, rank.value, i);
  });
}

/// Other ranks than root give an array of some other size, which must stay as it is.
template <class T>
auto wrong_in_gather(Collective& collective, CheckedOperation const& what) -> std::size_t {
  auto const rank = collective.rank();
  bool const is_root = rank == what.root;
  auto mine = filled<T>(what.size, rank, [&](std::size_t i) { return value_at<T>(what.seed, rank.value, i); });
  auto all = filled<T>(is_root ? what.size * collective.size().value : what.seed % 5, rank,
                       [&](std::size_t i) { return value_at<T>(what.seed + 1, rank.value, i); });
  auto const sent = is_root && what.in_place ? all.span().subspan(rank.value * what.size, what.size) : mine.span();
  if (is_root && what.in_place) std::copy(mine.span().begin(), mine.span().end(), sent.begin());
  collective.gather(std::span<T const>{sent}, all.span(), what.root);
  return wrong_bits<T>(all.span(), [&](std::size_t i) {
    return is_root ? value_at<T>(what.seed, i / what.size, i % what.size) : value_at<T>(what.seed + 1, rank.value, i);
  });
}

/// The same the other way round.
template <class T>
auto wrong_in_scatter(Collective& collective, CheckedOperation const& what) -> std::size_t {
  auto const rank = collective.rank();
  bool const is_root = rank == what.root;
  auto const value = [&](std::size_t i) { return value_at<T>(what.seed, rank.value, i); };
  auto all = filled<T>(is_root ? what.size * collective.size().value : what.seed % 5, rank, value);
  Array<T> apart{what.size, rank};
  auto const mine = is_root && what.in_place ? all.span().subspan(rank.value * what.size, what.size) : apart.span();
  collective.scatter(std::span<T const>{all.span()}, mine, what.root);
  return wrong_bits<T>(all.span(), value) + wrong_bits<T>(mine, [&](std::size_t i) {
           return value_at<T>(what.seed, what.root.value, rank.value * what.size + i);
         });
}

/// No rank sends more than `size`; some send nothing.
template <class T>
auto wrong_in_all_gatherv(Collective& collective, CheckedOperation const& what) -> std::size_t {
  auto const rank = collective.rank();
  std::vector<std::size_t> counts;
  std::vector<std::pair<std::size_t, std::size_t>> sent_by_at;  // of each element of the result: rank, index
  std::size_t begin = 0;
  for (std::size_t from = 0; from < collective.size().value; ++from) {
    if (from == rank.value) begin = sent_by_at.size();
    counts.push_back(value_at<std::uint64_t>(what.seed + 1, from, 0) % (what.size + 1));
    if (value_at<std::uint64_t>(what.seed + 2, from, 0) % 4 == 0) counts.back() = 0;
    for (std::size_t i = 0; i < counts.back(); ++i) sent_by_at.emplace_back(from, i);
  }
  auto const size = counts[rank.value];
  auto mine = filled<T>(size, rank, [&](std::size_t i) { return value_at<T>(what.seed, rank.value, i); });
  Array<T> all{sent_by_at.size(), rank};
  auto const own_part = all.span().subspan(begin, size);
  if (what.in_place) std::copy(mine.span().begin(), mine.span().end(), own_part.begin());
  collective.all_gatherv(std::span<T const>{what.in_place ? own_part : mine.span()}, all.span(),
                         std::span<std::size_t const>{counts});
  return wrong_bits<T>(
      all.span(), [&](std::size_t i) { return value_at<T>(what.seed, sent_by_at[i].first, sent_by_at[i].second); });
}

template <class... Ts, class Work>
void for_types(Work const& work) {
  (work(std::type_identity<Ts>{}), ...);
}

template <class Work>
void for_all_types(Work const& work) {
  for_types<float, double, std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t,
            std::uint32_t, std::uint64_t, Float16, BFloat16>(work);
}

/// An operation that follows from `random`, which is in the same state on every rank.
inline auto wrong_in_random_operation(Collective& collective, std::mt19937_64& random, std::size_t largest)
    -> std::size_t {
  CheckedOperation const checked{.seed = random(),
                                 .size = random() % 8 == 0 ? random() % (largest + 1) : random() % 150,
                                 .op = all_ops[random() % std::size(all_ops)],
                                 .root = Rank{static_cast<std::uint32_t>(random() % collective.size().value)},
                                 .in_place = random() % 2 == 0};
  auto const kind = random() % 9;
  std::size_t wrong = 0;
  auto const apply = [&]<class T>(std::type_identity<T>) {
    switch (kind) {
      case 0: collective.barrier(); break;
      case 1: wrong = wrong_in_all_reduce<T>(collective, checked); break;
      case 2: wrong = wrong_in_broadcast<T>(collective, checked); break;
      case 3: wrong = wrong_in_all_gather<T>(collective, checked); break;
      case 4: wrong = wrong_in_reduce_scatter<T>(collective, checked); break;
      case 5: wrong = wrong_in_reduce<T>(collective, checked); break;
      case 6: wrong = wrong_in_gather<T>(collective, checked); break;
      case 7: wrong = wrong_in_scatter<T>(collective, checked); break;
      default: wrong = wrong_in_all_gatherv<T>(collective, checked); break;
    }
  };
  switch (random() % 5) {
    case 0: apply(std::type_identity<float>{}); break;
    case 1: apply(std::type_identity<double>{}); break;
    case 2: apply(std::type_identity<Float16>{}); break;
    case 3: apply(std::type_identity<BFloat16>{}); break;
    default: apply(std::type_identity<std::int16_t>{}); break;
  }
  return wrong;
}

/// The sum of what `work` counts for each element type.
template <class Work>
auto wrong_of_any_type(Work const& work) -> std::size_t {
  std::size_t wrong = 0;
  for_all_types([&](auto type) { wrong += work(type); });
  return wrong;
}

inline constexpr std::size_t sizes_to_check[] = {0, 1, 3, 32, 33, 64, 65, 1000, 5001, 20011};
inline constexpr std::size_t few_sizes_to_check[] = {0, 1, 3, 65, 5001};

inline auto wrong_in_all_reduces(Collective& collective) -> std::size_t {
  return wrong_of_any_type([&]<class T>(std::type_identity<T>) {
    std::size_t wrong = 0;
    for (auto const op : all_ops) {
      for (auto const size : sizes_to_check)
        wrong += wrong_in_all_reduce<T>(collective, {.seed = size + 1, .size = size, .op = op});
    }
    return wrong;
  });
}

inline auto wrong_in_reduce_scatters(Collective& collective) -> std::size_t {
  return wrong_of_any_type([&]<class T>(std::type_identity<T>) {
    std::size_t wrong = 0;
    for (auto const op : all_ops) {
      for (std::size_t const size : {0, 1, 9, 65, 3001}) {
        wrong += wrong_in_reduce_scatter<T>(collective,
                                            {.seed = size + 2, .size = size, .op = op, .in_place = size % 3 == 0});
        wrong += wrong_in_reduce_scatter<T>(collective,
                                            {.seed = size + 3, .size = size, .op = op, .in_place = size % 3 != 0});
      }
    }
    return wrong;
  });
}

inline auto wrong_in_broadcasts(Collective& collective) -> std::size_t {
  return wrong_of_any_type([&]<class T>(std::type_identity<T>) {
    std::size_t wrong = 0;
    for (std::uint32_t root = 0; root < collective.size().value; ++root) {
      for (auto const size : sizes_to_check)
        wrong += wrong_in_broadcast<T>(collective, {.seed = size + root, .size = size, .root = {root}});
    }
    return wrong;
  });
}

inline auto wrong_in_all_gathers(Collective& collective) -> std::size_t {
  return wrong_of_any_type([&]<class T>(std::type_identity<T>) {
    std::size_t wrong = 0;
    for (auto const size : sizes_to_check) {
      wrong += wrong_in_all_gather<T>(collective, {.seed = size + 5, .size = size});
      wrong += wrong_in_all_gather<T>(collective, {.seed = size + 6, .size = size, .in_place = true});
    }
    return wrong;
  });
}

inline auto wrong_in_reduces(Collective& collective) -> std::size_t {
  return wrong_of_any_type([&]<class T>(std::type_identity<T>) {
    std::size_t wrong = 0;
    for (auto const op : all_ops) {
      for (auto const size : few_sizes_to_check) {
        for (std::uint32_t root = 0; root < collective.size().value; ++root) {
          wrong += wrong_in_reduce<T>(collective, {.seed = size + root, .size = size, .op = op, .root = {root}});
        }
      }
    }
    return wrong;
  });
}

inline auto wrong_in_gathers_and_scatters(Collective& collective) -> std::size_t {
  return wrong_of_any_type([&]<class T>(std::type_identity<T>) {
    std::size_t wrong = 0;
    for (auto const size : few_sizes_to_check) {
      for (std::uint32_t root = 0; root < collective.size().value; ++root) {
        for (bool const in_place : {false, true}) {
          CheckedOperation const checked{.seed = size + root, .size = size, .root = {root}, .in_place = in_place};
          wrong += wrong_in_gather<T>(collective, checked);
          wrong += wrong_in_scatter<T>(collective, checked);
        }
      }
    }
    return wrong;
  });
}

inline auto wrong_in_all_gathervs(Collective& collective) -> std::size_t {
  return wrong_of_any_type([&]<class T>(std::type_identity<T>) {
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < std::size(sizes_to_check); ++i) {
      wrong += wrong_in_all_gatherv<T>(collective, {.seed = 2 * i, .size = sizes_to_check[i]});
      wrong += wrong_in_all_gatherv<T>(collective, {.seed = 2 * i + 1, .size = sizes_to_check[i], .in_place = true});
    }
    return wrong;
  });
}

/// NaNs that are none in the end, and zeros of the wrong sign.
inline auto wrong_nans_and_zeros(Collective& collective) -> std::size_t {
  auto const ranks = collective.size().value;
  std::size_t wrong = 0;
  for_types<float, double, Float16, BFloat16>([&]<class T>(std::type_identity<T>) {
    for (std::uint32_t from = 0; from < ranks; ++from) {
      for (auto const op : all_ops) {
        std::vector<T> values(100, T{-0.0F});
        if (collective.rank() == Rank{from}) values[99] = T{std::numeric_limits<float>::quiet_NaN()};
        collective.all_reduce(std::span<T>{values}, op);
        bool const negative = op != ReduceOp::product || ranks % 2 == 1;
        wrong += std::isnan(static_cast<float>(values[99])) ? 0 : 1;
        wrong += std::signbit(static_cast<float>(values[98])) == negative ? 0 : 1;
      }
    }
  });
  return wrong;
}

inline auto wrong_in_sums_of_16_bits(Collective& collective) -> std::size_t {
  std::size_t wrong = 0;
  for_types<Float16, BFloat16>([&]<class T>(std::type_identity<T>) {
    // From this number on, the next integer is half way to the next value.
    float const large = std::same_as<T, Float16> ? 2048 : 256;
    std::vector<float> const by_rank[] = {{large, 1, 1, 60000, 60000, -60000, -60000},
                                          {60000, 60000, -60000, -60000, large, 1, 1}};
    for (auto const& parts : by_rank) {
      float sum = 0;
      for (std::uint32_t rank = 0; rank < collective.size().value; ++rank) sum += static_cast<float>(T{parts.at(rank)});
      for (std::size_t const count : {1U, 100U, 5000U}) {
        std::vector<T> values(count, T{parts.at(collective.rank().value)});
        collective.all_reduce(std::span<T>{values}, ReduceOp::sum);
        wrong += wrong_bits<T>(values, [&](std::size_t) { return T{sum}; });
      }
    }
  });
  return wrong;
}

}  // namespace raytrain::testing
