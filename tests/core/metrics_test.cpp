// SPDX-License-Identifier: Apache-2.0
#include <raytrain/core/metrics.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <variant>

#include <doctest/doctest.h>

#include "../support/thrown_error.hpp"

using raytrain::Metrics;
using raytrain::testing::thrown_error;

TEST_CASE("metrics keep the order in which they were set, and setting one again keeps its place") {
  Metrics metrics{{"loss", 0.5}, {"epoch", std::int64_t{1}}};
  metrics.set("loss", 0.25F);
  CHECK(metrics.names() == "loss, epoch");
  CHECK(metrics.number("loss") == 0.25);
}

TEST_CASE("a name that is listed twice is there once, with the later value") {
  Metrics const metrics{{"loss", 0.5}, {"loss", 0.25}};
  CHECK(metrics.size() == 1);
  CHECK(metrics.number("loss") == 0.25);
}

TEST_CASE("of thousands of metrics each is found by its name, has its place, and is there once") {
  constexpr int count = 3000;
  auto const name_of = [](int i) { return "layer." + std::to_string(i); };
  Metrics metrics;
  for (int i = 0; i < count; ++i) {
    metrics.set(name_of(i), i);
    if (i % 3 == 2) metrics.set(name_of(i / 2), -i);
  }
  auto const copy = metrics;
  REQUIRE(copy.size() == count);
  int i = 0;
  for (auto const& [name, value] : copy) {
    CAPTURE(i);
    REQUIRE(name == name_of(i));
    int expected = i;
    for (int later = 2 * i; later < 2 * i + 2 && later < count; ++later) {
      if (later % 3 == 2) expected = -later;
    }
    REQUIRE(copy.find(name) == &value);
    REQUIRE(value == raytrain::MetricValue{std::int64_t{expected}});
    ++i;
  }
  CHECK_FALSE(copy.contains(name_of(count)));
  metrics = {};
  CHECK_FALSE(metrics.contains(name_of(0)));
}

TEST_CASE("a metric that was not reported is an error that lists those that were") {
  Metrics const metrics{{"loss", 0.5}, {"epoch", std::int64_t{1}}};
  CHECK(thrown_error([&] { (void)metrics.at("acc"); }) ==
        "not_found: metric 'acc': is not among the reported ones: loss, epoch; name one of them, or add a field to the "
        "report");
  CHECK(thrown_error([] { (void)Metrics{}.at("acc"); }).find("reported ones: (none);") != std::string::npos);
}

TEST_CASE("an integer stays an integer, a float becomes a double, text stays text and a bool a bool") {
  Metrics metrics;
  metrics.set("integer", 3U);
  metrics.set("float", 0.5F);
  metrics.set("text", "node");
  metrics.set("bool", true);
  CHECK(std::holds_alternative<std::int64_t>(metrics.at("integer")));
  CHECK(std::holds_alternative<double>(metrics.at("float")));
  CHECK(std::holds_alternative<std::string>(metrics.at("text")));
  CHECK(std::holds_alternative<bool>(metrics.at("bool")));
}

TEST_CASE("an integer above the largest one with a sign is refused with its name, and does not turn negative") {
  auto const largest = std::numeric_limits<std::int64_t>::max();
  Metrics metrics;
  metrics.set("largest", static_cast<std::uint64_t>(largest));
  CHECK(std::get<std::int64_t>(metrics.at("largest")) == largest);
  CHECK(thrown_error([&] { metrics.set("samples", static_cast<std::uint64_t>(largest) + 1); }) ==
        "invalid_report: metric 'samples': must be at most 9223372036854775807 (got 9223372036854775808); report it as "
        "a double");
  CHECK_FALSE(metrics.contains("samples"));
}

TEST_CASE("a bool counts as a number and text does not") {
  Metrics metrics;
  metrics.set("done", true);
  metrics.set("host", "node");
  metrics.set("epoch", 3);
  CHECK(metrics.number("done") == 1.0);
  CHECK(metrics.number("epoch") == 3.0);
  CHECK_FALSE(metrics.number("host").has_value());
  CHECK_FALSE(metrics.number("loss").has_value());
}

TEST_CASE("a NaN is kept") {
  Metrics metrics;
  metrics.set("loss", std::numeric_limits<float>::quiet_NaN());
  CHECK(std::isnan(*metrics.number("loss")));
}

TEST_CASE("metrics are equal if names, types, values and order are") {
  Metrics const metrics{{"a", 1.0}, {"b", 2.0}};
  CHECK(metrics == Metrics{{"a", 1.0}, {"b", 2.0}});
  CHECK(metrics != Metrics{{"b", 2.0}, {"a", 1.0}});
  CHECK(metrics != Metrics{{"a", std::int64_t{1}}, {"b", 2.0}});
}

TEST_CASE("metrics with a NaN equal their copy, and no metrics with a number in its place") {
  Metrics const diverged{{"loss", std::numeric_limits<double>::quiet_NaN()}};
  CHECK(diverged == Metrics{diverged});
  CHECK(diverged != Metrics{{"loss", 0.5}});
  CHECK(diverged != Metrics{{"error", std::numeric_limits<double>::quiet_NaN()}});
  CHECK(diverged != Metrics{{"loss", std::int64_t{0}}});
}
