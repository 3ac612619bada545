// SPDX-License-Identifier: Apache-2.0
#include <raytrain/collective/detail/reduce.hpp>

#include <cstddef>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/bfloat16.hpp>
#include <raytrain/core/float16.hpp>

#include "../support/random_seed.hpp"
#include "conformance.hpp"

using raytrain::ReduceOp;
using raytrain::detail::reduce_blocks;
using raytrain::detail::reduce_to;
using raytrain::detail::ReduceTwo;

// The conformance suite sees only what this processor chooses.
TEST_CASE("two arrays give the same bits with any vectors, and as the blocks of many arrays do") {
  auto const seed = raytrain::testing::random_seed();
  conformance::for_all_types([&]<class T>(std::type_identity<T>) {
    for (auto const op : conformance::all_ops) {
      for (std::size_t const size : {0U, 1U, 63U, 64U, 65U, 5000U}) {
        std::vector<T> first(size);
        std::vector<T> second(size);
        for (std::size_t i = 0; i < size; ++i) {
          first[i] = conformance::value_at<T>(seed, 0, i);
          second[i] = conformance::value_at<T>(seed, 1, i);
          if constexpr (std::is_floating_point_v<T>) {
            if (i % 7 == 3) second[i] = std::numeric_limits<T>::quiet_NaN();
          }
        }
        std::vector<T> plain(size);
        std::vector<T> chosen(size);
        std::vector<T> also(size);
        std::vector<T> blocks(size);
        raytrain::detail::with_op(op, [&](auto constant) {
          auto const source = [&](std::uint32_t rank) { return rank == 0 ? first.data() : second.data(); };
          ReduceTwo<constant(), T>::run(first.data(), second.data(), plain.data(), nullptr, size);
          reduce_to<constant(), T>(2, size, source, std::array{chosen.data(), also.data()});
          reduce_blocks<constant(), T>(2, size, source, [&](std::size_t at, T const* block, std::size_t bytes) {
            std::memcpy(blocks.data() + at, block, bytes);
          });
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
