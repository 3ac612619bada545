// SPDX-License-Identifier: Apache-2.0
#include <raytrain/collective/detail/reduce-inl.hpp>
#include <raytrain/collective/detail/reduce.hpp>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/float16.hpp>
#include <raytrain/testing/collective_conformance.hpp>
#include <raytrain/testing/random_seed.hpp>

using raytrain::ReduceOp;
using raytrain::detail::reduce_blocks;
using raytrain::detail::Reducers;
using raytrain::detail::ReduceTwo;

namespace {

template <class Work>
void with_op(ReduceOp op, Work const& work) {
  switch (op) {
    case ReduceOp::sum: return work(std::integral_constant<ReduceOp, ReduceOp::sum>{});
    case ReduceOp::average: return work(std::integral_constant<ReduceOp, ReduceOp::average>{});
    case ReduceOp::min: return work(std::integral_constant<ReduceOp, ReduceOp::min>{});
    case ReduceOp::max: return work(std::integral_constant<ReduceOp, ReduceOp::max>{});
    case ReduceOp::product: return work(std::integral_constant<ReduceOp, ReduceOp::product>{});
  }
}

}  // namespace

// The conformance suite sees only what this processor chooses.
TEST_CASE("two arrays give the same bits with any vectors, and as the blocks of many arrays do") {
  auto const seed = raytrain::testing::random_seed();
  raytrain::testing::for_types<float, double, std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t,
                               std::uint16_t, std::uint32_t, std::uint64_t>([&]<class T>(std::type_identity<T>) {
    for (auto const op : raytrain::testing::all_ops) {
      for (std::size_t const size : {0U, 1U, 63U, 64U, 65U, 5000U}) {
        std::vector<T> first(size);
        std::vector<T> second(size);
        for (std::size_t i = 0; i < size; ++i) {
          first[i] = raytrain::testing::value_at<T>(seed, 0, i);
          second[i] = raytrain::testing::value_at<T>(seed, 1, i);
          if constexpr (std::is_floating_point_v<T>) {
            if (i % 7 == 3) second[i] = std::numeric_limits<T>::quiet_NaN();
          }
        }
        std::vector<T> plain(size);
        std::vector<T> chosen(size);
        std::vector<T> also(size);
        std::vector<T> blocks(size);
        auto const bytes_of = [](auto& array) { return reinterpret_cast<std::byte*>(array.data()); };
        auto const source = [&](std::uint32_t rank) { return bytes_of(rank == 0 ? first : second); };
        auto const both = [&](std::uint32_t number) { return bytes_of(number == 0 ? chosen : also); };
        auto const one = [&](std::uint32_t) { return bytes_of(blocks); };
        Reducers::of<T>()[op]({2, 0, source}, size * sizeof(T), {2, both});
        with_op(op, [&](auto constant) {
          ReduceTwo<constant(), T>::run(first.data(), second.data(), second.data(), plain.data(), nullptr, size);
          reduce_blocks<constant(), T>({2, 0, source}, size * sizeof(T), {1, one});
        });
        auto const bytes = size * sizeof(T);
        CAPTURE(to_string(raytrain::element_type<T>));
        CAPTURE(to_string(op));
        CHECK((size == 0 || std::memcmp(plain.data(), chosen.data(), bytes) == 0));
        CHECK((size == 0 || std::memcmp(plain.data(), also.data(), bytes) == 0));
        CHECK((size == 0 || std::memcmp(plain.data(), blocks.data(), bytes) == 0));
      }
    }
  });
}

TEST_CASE("numbers of 16 bits and floats become each other's bits as their own functions have it") {
  using raytrain::detail::convert;
  auto const check = []<class T>(std::type_identity<T>) {
    std::vector<T> all(1U << 16U);
    std::vector<float> floats(all.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = T::from_bits(static_cast<std::uint16_t>(i));
    std::vector<float> wide(all.size());
    convert(all.data(), wide.data(), all.size());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      auto const expected = static_cast<float>(all[i]);
      // Which NaN a NaN is may differ.
      wrong += wide[i] == expected || (std::isnan(wide[i]) && std::isnan(expected)) ? 0 : 1;
    }
    CHECK(wrong == 0);
    std::mt19937_64 random{raytrain::testing::random_seed()};
    for (auto& value : floats) value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    // Around what T can tell apart.
    for (std::size_t i = 0; i < floats.size(); i += 2) floats[i] = wide[random() % wide.size()] * 1.00025F;
    floats.resize(floats.size() - 3);
    std::vector<T> narrow(floats.size());
    convert(floats.data(), narrow.data(), floats.size());
    for (std::size_t i = 0; i < floats.size(); ++i) {
      bool const both_nan = std::isnan(floats[i]) && std::isnan(static_cast<float>(narrow[i]));
      wrong += narrow[i].bits() == T{floats[i]}.bits() || both_nan ? 0 : 1;
    }
    CHECK(wrong == 0);
  };
  check(std::type_identity<raytrain::Float16>{});
  check(std::type_identity<raytrain::BFloat16>{});
}
