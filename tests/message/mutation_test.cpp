// SPDX-License-Identifier: Apache-2.0
// The fuzz targets' properties under random changes of good inputs, for compilers without libFuzzer.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/testing/random_seed.hpp>

#include "../fuzz/data_properties.hpp"
#include "../fuzz/properties.hpp"
#include "../fuzz/seeds.hpp"
#include "../fuzz/slice_properties.hpp"
#include "../fuzz/tensor_properties.hpp"

using namespace raytrain;

namespace {

class Mutator {
 public:
  Mutator(std::vector<Bytes> seeds, std::uint64_t seed) : seeds_{std::move(seeds)}, random_{seed} {}

  /// One of the seeds, changed in one to four places.
  [[nodiscard]] auto next() -> Bytes {
    auto bytes = seeds_[below(seeds_.size())];
    for (auto changes = 1 + below(4); changes > 0; --changes) change(bytes);
    return bytes;
  }

  [[nodiscard]] auto below(std::size_t bound) -> std::size_t { return bound == 0 ? 0 : random_() % bound; }

 private:
  void change(Bytes& bytes) {
    static constexpr std::array<std::uint64_t, 8> sizes{0, 1, 0x7F, 0xFF, 0xFFFF, 0x7FFFFFFF, 1ULL << 40U, ~0ULL};
    auto const place = below(bytes.size());
    auto const at = bytes.begin() + static_cast<std::ptrdiff_t>(place);
    switch (below(6)) {
      case 0: bytes.resize(place); break;
      case 1: bytes.insert(at, static_cast<std::byte>(random_())); break;
      case 2: {
        auto const& other = seeds_[below(seeds_.size())];
        bytes.insert(at, other.begin() + static_cast<std::ptrdiff_t>(below(other.size())), other.end());
        break;
      }
      case 3: {
        auto size = sizes[below(sizes.size())];
        for (auto i = place; i < std::min(place + 8, bytes.size()); ++i, size >>= 8U) {
          bytes[i] = static_cast<std::byte>(size);
        }
        break;
      }
      default:
        if (!bytes.empty()) bytes[place] ^= static_cast<std::byte>(1U << below(8));
    }
  }

  std::vector<Bytes> seeds_;
  std::mt19937_64 random_;
};

constexpr int rounds = 20'000;

}  // namespace

TEST_CASE("a payload that was changed at random is refused or is a message, and some are each") {
  Mutator mutator{testing::payload_seeds(), testing::random_seed()};
  int good = 0;
  for (int i = 0; i < rounds; ++i) good += testing::check_decode(mutator.next()) ? 1 : 0;
  CHECK(good > rounds / 100);
  CHECK(good < rounds);
}

TEST_CASE("a stream that was changed at random gives the same payloads in any chunks, or is refused") {
  Mutator mutator{testing::stream_seeds(), testing::random_seed()};
  for (int i = 0; i < rounds / 4; ++i) testing::check_frame_decoder(mutator.next(), 1 + mutator.below(64));
}

TEST_CASE("JSON that was changed at random is refused or reads back the same, and some are each") {
  Mutator mutator{testing::json_seeds(), testing::random_seed()};
  int good = 0;
  for (int i = 0; i < rounds; ++i) good += testing::check_json(text_of(mutator.next())) ? 1 : 0;
  CHECK(good > rounds / 100);
  CHECK(good < rounds);
}

TEST_CASE(
    "a file of tensors that was changed at random is refused or has each tensor in its place, and some are each") {
  Mutator mutator{testing::tensor_seeds(), testing::random_seed()};
  int good = 0;
  for (int i = 0; i < rounds; ++i) good += testing::check_tensors(mutator.next()) ? 1 : 0;
  CHECK(good > rounds / 1000);
  CHECK(good < rounds);
}

TEST_CASE("a file of NumPy's that was changed at random is refused or is written as it was read, and some are each") {
  Mutator mutator{testing::npy_seeds(), testing::random_seed()};
  int good = 0;
  for (int i = 0; i < rounds / 4; ++i) good += testing::check_npy(mutator.next()) ? 1 : 0;
  CHECK(good > rounds / 1000);
  CHECK(good < rounds / 4);
}

TEST_CASE(
    "a file of IDX's format that was changed at random is refused or is a column, by gzip too, and some are each") {
  Mutator mutator{testing::idx_seeds(), testing::random_seed()};
  int good = 0;
  for (int i = 0; i < rounds / 4; ++i) good += testing::check_idx(mutator.next()) ? 1 : 0;
  CHECK(good > rounds / 1000);
  CHECK(good < rounds / 4);
}

TEST_CASE("a table of CSV that was changed at random is refused or is written as it was read, and some are each") {
  Mutator mutator{testing::csv_seeds(), testing::random_seed()};
  int good = 0;
  for (int i = 0; i < rounds / 4; ++i) good += testing::check_csv(mutator.next()) ? 1 : 0;
  CHECK(good > rounds / 1000);
  CHECK(good < rounds / 4);
}

TEST_CASE("a file of LIBSVM's format that was changed at random is refused or is a table, and some are each") {
  Mutator mutator{testing::libsvm_seeds(), testing::random_seed()};
  int good = 0;
  for (int i = 0; i < rounds / 4; ++i) good += testing::check_libsvm(mutator.next()) ? 1 : 0;
  CHECK(good > rounds / 1000);
  CHECK(good < rounds / 4);
}

TEST_CASE("lines of JSON that were changed at random are refused or are written as they were read, and some are each") {
  Mutator mutator{testing::json_lines_seeds(), testing::random_seed()};
  int good = 0;
  for (int i = 0; i < rounds / 4; ++i) good += testing::check_json_lines(mutator.next()) ? 1 : 0;
  CHECK(good > rounds / 1000);
  CHECK(good < rounds / 4);
}

TEST_CASE("the name of a slice's file that was changed at random is another file's or a slice's, and some are each") {
  Mutator mutator{testing::slice_name_seeds(), testing::random_seed()};
  int good = 0;
  for (int i = 0; i < rounds; ++i) good += testing::check_slice_name(text_of(mutator.next())) ? 1 : 0;
  CHECK(good > rounds / 1000);
  CHECK(good < rounds);
}
