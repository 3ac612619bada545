// SPDX-License-Identifier: Apache-2.0
#include <raytrain/train/detail/config_text.hpp>

#include <any>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

namespace {

using raytrain::detail::config_text;

enum class Kind : std::uint8_t { first, second };

// As torch::Device: no default constructor.
class Device {
 public:
  Device(Kind kind, int index = -1) : kind_{kind}, index_{index} {}  // NOLINT(google-explicit-constructor)

 private:
  Kind kind_;
  int index_;
};

struct Nothing {};
struct Inner {
  int depth = 1;
  double rate = 0.1;
};
struct Plain {
  bool on = true;
  std::string device = "cpu";
  Kind kind = Kind::second;
  std::optional<int> limit{};
  std::optional<double> share = 0.5;
  std::filesystem::path path = "/data";
  std::chrono::milliseconds pause{5};
  Inner inner{};
  std::vector<Inner> more{{}, {2, 0.2}};
  std::map<std::string, int> sizes{{"a", 1}};
  std::array<int, 2> pair{1, 2};
  std::pair<int, std::string> named{3, "x"};
};
struct WithFields {
  int epochs = 1;
  double rate = 2.5;
  template <class A>
  void serialize(A& a) {
    a(epochs, rate);
  }
};
struct Secretive {
  int before = 1;
  Device device = Kind::first;
  std::function<void()> hook{};
  std::unique_ptr<int> owned{};
  char const* name = "n";
  std::string_view view = "v";
  int behind = 2;
};
struct BitFields {
  unsigned low : 3 = 5;
  unsigned high : 5 = 17;
};
struct CArray {
  int before = 1;
  int values[3]{1, 2, 3};
};
struct WithUnion {
  union {
    int number = 1;
    float real;
  };
  int behind = 2;
};
struct Derived : Inner {
  int behind = 2;
};
struct Immovable {
  std::mutex mutex{};
  std::atomic<int> count{1};
  std::any any{};
};
struct Sixteen {
  int a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0, i = 0, j = 0, k = 0, l = 0, m = 0, n = 0, o = 0, p = 7;
};
struct TooMany {
  Sixteen first{};
  int a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0, i = 0, j = 0, k = 0, l = 0, m = 0, n = 0, o = 0, p = 7;
};

}  // namespace

TEST_CASE("a config's text has the value of every field that has one, in order") {
  CHECK(config_text(Nothing{}) == "{}");
  CHECK(config_text(Plain{}) ==
        "{true, 'cpu', 1, unset, 0.5, '/data', 5, {1, 0.1}, {{1, 0.1}, {2, 0.2}}, {{'a', 1}}, {1, 2}, {3, 'x'}}");
  CHECK(config_text(WithFields{}) == "{1, 2.5}");
  CHECK(config_text(BitFields{}) == "{5, 17}");
  CHECK(config_text(Sixteen{}) == "{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7}");
}

TEST_CASE("two numbers that differ in their last bit have different texts") {
  CHECK(config_text(0.1) != config_text(std::nextafter(0.1, 1.0)));
  CHECK(config_text(Inner{1, 0.3}) != config_text(Inner{1, 0.1 + 0.2}));
}

TEST_CASE("a hash map's text does not depend on how it came about") {
  std::unordered_map<int, int> one{{1, 1}, {2, 2}};
  one.rehash(1000);
  std::unordered_map<int, int> const other{{2, 2}, {1, 1}};
  CHECK(config_text(one) == config_text(other));
}

TEST_CASE("what cannot be compared does not keep a config from compiling, nor its other fields from being compared") {
  CHECK(config_text(Secretive{}) == "{1, ?, ?, ?, ?, 'v', 2}");
  CHECK(config_text(CArray{}) == "?");
  CHECK(config_text(WithUnion{}) == "?");
  CHECK(config_text(Derived{}) == "?");
  CHECK(config_text(Immovable{}) == "?");
  CHECK(config_text(TooMany{}) == "?");
}
