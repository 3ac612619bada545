// SPDX-License-Identifier: Apache-2.0
#include <raytrain/core/parallel_copy.hpp>

#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/core/bytes.hpp>

using namespace raytrain;

TEST_CASE("every byte of every piece arrives, whatever the sizes and the number of threads") {
  std::vector<std::size_t> const sizes{0, 1, 5'000'000, 0, 3, 9'000'001, 4096, 0};
  std::size_t total = 0;
  for (auto const size : sizes) total += size;
  Bytes from(total);
  for (std::size_t i = 0; i < total; ++i) from[i] = static_cast<std::byte>(i % 251);
  for (std::size_t const threads : {0U, 1U, 2U, 3U, 7U}) {
    Bytes to(total + 1);
    std::vector<CopyPiece> pieces;
    std::size_t place = 0;
    for (auto const size : sizes) {
      pieces.push_back({to.data() + total - place - size, from.data() + place, size});  // in the other order
      place += size;
    }
    parallel_copy(pieces, threads);
    Bytes expected(total + 1);
    place = 0;
    for (auto const size : sizes) {
      for (std::size_t i = 0; i < size; ++i) expected[total - place - size + i] = from[place + i];
      place += size;
    }
    CHECK((to == expected));
  }
}

TEST_CASE("of two pieces that go to the same place the later one stays, with any number of threads") {
  Bytes const first(16U << 20U, std::byte{1});
  Bytes const second(16U << 20U, std::byte{2});
  for (std::size_t const threads : {1U, 4U}) {
    Bytes to(first.size());
    std::vector<CopyPiece> const pieces{{to.data(), first.data(), first.size()},
                                        {to.data(), second.data(), second.size()}};
    parallel_copy(pieces, threads);
    CHECK((to == second));
  }
}

TEST_CASE("nothing is copied where there is nothing") {
  parallel_copy({}, 4);
  CopyPiece const empty{};
  parallel_copy({&empty, 1}, 4);
  CHECK(empty.to == nullptr);
}
