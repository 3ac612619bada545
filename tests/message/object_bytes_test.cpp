// SPDX-License-Identifier: Apache-2.0
#include <raytrain/message/object_bytes.hpp>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

#include <doctest/doctest.h>
#include <cereal/types/map.hpp>
#include <cereal/types/variant.hpp>

#include "../support/thrown_error.hpp"

using raytrain::from_bytes;
using raytrain::to_bytes;
using raytrain::Transferable;
using raytrain::testing::thrown_error;

namespace {

struct Split {
  std::string column;
  double threshold = 0;
  std::vector<std::int16_t> left;
  std::map<std::string, bool> seen;
  friend auto operator==(Split const&, Split const&) -> bool = default;
  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(column), CEREAL_NVP(threshold), CEREAL_NVP(left), CEREAL_NVP(seen));
  }
};

struct Opaque {
  int* where = nullptr;
};

static_assert(Transferable<Split> && Transferable<double> && Transferable<std::vector<std::string>>);
static_assert(!Transferable<Opaque> && !Transferable<std::mutex>);

}  // namespace

TEST_CASE("an object comes out of its bytes as it went in") {
  Split const split{"age", 0.25, {-1, 300}, {{"a", true}, {"b", false}}};
  CHECK(from_bytes<Split>(to_bytes(split)) == split);
  CHECK(from_bytes<Split>(to_bytes(Split{})) == Split{});
  CHECK(from_bytes<std::vector<std::string>>(to_bytes(std::vector<std::string>{"", "x"})) ==
        std::vector<std::string>{"", "x"});
}

TEST_CASE("bytes that cereal itself refuses are refused as bad messages, too") {
  auto const text = thrown_error([] { (void)from_bytes<std::variant<int, float>>(to_bytes(std::int64_t{7})); });
  CHECK(text.starts_with("bad_message: decoding a message: Invalid 'index' selector"));
}

TEST_CASE("bytes of another object are refused, whether they are too few or too many") {
  auto bytes = to_bytes(std::string{"text"});
  bytes.push_back({});
  CHECK(thrown_error([&] { (void)from_bytes<std::string>(bytes); }) ==
        "bad_message: decoding a message: 1 bytes follow the last field");
  bytes.resize(9);
  CHECK(thrown_error([&] { (void)from_bytes<std::string>(bytes); }) ==
        "bad_message: decoding a message: a size is 4 where 1 bytes are left");
}
