// SPDX-License-Identifier: Apache-2.0
#include <raytrain/message/report_fields.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/message/json.hpp>
#include <raytrain/message/report_line.hpp>

#include "../support/thrown_error.hpp"

using namespace raytrain;
using raytrain::testing::thrown_error;

namespace {

struct Epoch {
  int epoch{};
  double loss{};
  float accuracy{};
  friend auto operator==(Epoch const&, Epoch const&) -> bool = default;
  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(epoch), CEREAL_NVP(loss), CEREAL_NVP(accuracy));
  }
};

enum class Phase : std::uint8_t { warm_up, steady };

struct Everything {
  Epoch train;
  bool done{};
  std::uint64_t samples{};
  Phase phase{};
  std::string note;
  Epoch validation;
  friend auto operator==(Everything const&, Everything const&) -> bool = default;
  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(train), CEREAL_NVP(done));
    a& CEREAL_NVP(samples);
    a(CEREAL_NVP(phase), cereal::make_nvp("remark", note), CEREAL_NVP(validation));
  }
};

// One archetype per defect.
struct Elsewhere {
  int step{};
};
template <class A>
void serialize(A& a, Elsewhere& e) {
  a(cereal::make_nvp("step", e.step));
}
class Private {
  friend class cereal::access;
  int step_ = 3;
  template <class A>
  void serialize(A& a) {
    a(cereal::make_nvp("step", step_));
  }
};
struct WithoutSerialize {
  int epoch{};
};
struct WithVersion {
  template <class A>
  void serialize(A&, std::uint32_t) {}
};
class HiddenSerialize {
  template <class A>
  void serialize(A&) {}
};
struct WithoutDefault : Epoch {
  explicit WithoutDefault(int) {}
};
static_assert(Reportable<Epoch> && Reportable<Everything> && Reportable<Elsewhere> && Reportable<Private>);
static_assert(!Reportable<WithoutSerialize> && !Reportable<WithVersion> && !Reportable<HiddenSerialize>);
static_assert(!Reportable<WithoutDefault>);
static_assert(!Reportable<int> && !Reportable<double*> && !Reportable<std::string> && !Reportable<void>);
static_assert(!Reportable<Metrics> && !Reportable<std::vector<int>> && !Reportable<int[3]>);
// That a message can be encoded does not make it a report.
static_assert(!Reportable<Started> && !Reportable<Report>);

struct Automatic {
  int epoch{};
  double timestamp{};
  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(epoch), CEREAL_NVP(timestamp));
  }
};

struct NestedAutomatic {
  Automatic inner;
  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(inner));
  }
};

struct Twice {
  int epoch{};
  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(epoch), CEREAL_NVP(epoch));
  }
};

struct Nameless {
  int epoch{};
  template <class A>
  void serialize(A& a) {
    a(cereal::make_nvp("", epoch));
  }
};

struct Unsigned {
  std::uint64_t samples{};
  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(samples));
  }
};

template <class T>
struct Loss {
  T loss{};
  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(loss));
  }
};

}  // namespace

TEST_CASE("a report's fields become metrics in the order of their listing, with their values and types") {
  Epoch const report{3, 0.5, 0.25F};
  auto const metrics = to_metrics(report);
  CHECK(metrics == Metrics{{"epoch", std::int64_t{3}}, {"loss", 0.5}, {"accuracy", 0.25}});
}

TEST_CASE("the fields of a struct inside a report are called outer.inner, and given names are taken") {
  Everything const report{{1, 0.5, 1.0F}, true, 60'000, Phase::steady, "fine", {2, 0.75, 0.5F}};
  CHECK(to_metrics(report).names() ==
        "train.epoch, train.loss, train.accuracy, done, samples, phase, remark, validation.epoch, validation.loss, "
        "validation.accuracy");
  CHECK(to_metrics(report).at("validation.loss") == MetricValue{0.75});
  CHECK(to_metrics(report).at("done") == MetricValue{true});
  CHECK(to_metrics(report).at("phase") == MetricValue{std::int64_t{1}});
}

TEST_CASE("a report that became metrics is the same report again, also by way of JSON") {
  Everything const report{{1, 0.1, 0.3F}, true, 60'000, Phase::steady, "fine", {2, 1.0, 0.0F}};
  CHECK(metrics_cast<Everything>(to_metrics(report)) == report);
  CHECK(metrics_cast<Everything>(metrics_from_json(to_json(to_metrics(report)))) == report);
}

TEST_CASE("serialize may be private or stand beside its struct") {
  CHECK(to_metrics(Private{}).number("step") == 3.0);
  CHECK(to_metrics(Elsewhere{4}).number("step") == 4.0);
  CHECK(metrics_cast<Elsewhere>({{"step", std::int64_t{5}}}).step == 5);
}

TEST_CASE("the names of a report's fields are those of its metrics, without a report") {
  CHECK(field_names<Epoch>() == std::vector<std::string>{"epoch", "loss", "accuracy"});
  CHECK(field_names<NestedAutomatic>() == std::vector<std::string>{"inner.epoch", "inner.timestamp"});
}

TEST_CASE("metrics without a field of the report are an error that names the field and lists the metrics") {
  CHECK(
      thrown_error([] {
        (void)metrics_cast<Epoch>({{"epoch", std::int64_t{1}}, {"loss", 0.5}});
      }) ==
      "not_found: metric 'accuracy': is not among the reported ones: epoch, loss; name one of them, or add a field to "
      "the report");
}

TEST_CASE("metrics that are no fields of the report are passed over") {
  CHECK(metrics_cast<Unsigned>({{"other", "x"}, {"samples", std::int64_t{2}}}).samples == 2);
}

TEST_CASE("a metric of another type than its field is refused with its name") {
  auto const refusal = []<class T>(T, MetricValue value) {
    return thrown_error([&] { (void)metrics_cast<Loss<T>>(Metrics{{"loss", std::move(value)}}); });
  };
  CHECK(refusal(0, 0.5) == "invalid_report: metric 'loss': must be an integer that its type can hold");
  CHECK(refusal(0, true) == "invalid_report: metric 'loss': must be an integer that its type can hold");
  CHECK(refusal(0.0, "x") == "invalid_report: metric 'loss': must be a number");
  CHECK(refusal(0.0, true) == "invalid_report: metric 'loss': must be a number");
  CHECK(refusal(std::string{}, 0.5) == "invalid_report: metric 'loss': must be text");
  CHECK(refusal(false, std::int64_t{1}) == "invalid_report: metric 'loss': must be true or false");
}

TEST_CASE("an integer that its field cannot hold is refused, and the ends of its range are not") {
  auto const cast = []<class T>(T, std::int64_t value) { return metrics_cast<Loss<T>>({{"loss", value}}).loss; };
  CHECK(cast(std::int8_t{}, 127) == 127);
  CHECK(cast(std::int8_t{}, -128) == -128);
  CHECK(cast(std::uint64_t{}, std::numeric_limits<std::int64_t>::max()) == 9223372036854775807U);
  auto const expected = "invalid_report: metric 'loss': must be an integer that its type can hold";
  CHECK(thrown_error([&] { (void)cast(std::int8_t{}, 128); }) == expected);
  CHECK(thrown_error([&] { (void)cast(std::uint64_t{}, -1); }) == expected);
}

TEST_CASE("a whole number is accepted where a field is floating point") {
  CHECK(metrics_cast<Loss<double>>({{"loss", std::int64_t{2}}}).loss == 2.0);
}

TEST_CASE("a finite number beyond the type of its field is refused, and an infinite one is not") {
  CHECK(thrown_error([] {
          (void)metrics_cast<Loss<float>>({{"loss", 1e300}});
        }) == "invalid_report: metric 'loss': must be a number that its type can hold");
  auto const infinity = std::numeric_limits<double>::infinity();
  CHECK(metrics_cast<Loss<float>>({{"loss", -infinity}}).loss == -std::numeric_limits<float>::infinity());
  CHECK(metrics_cast<Loss<float>>({{"loss", 3e38}}).loss == 3e38F);
}

TEST_CASE("an integer above 64 signed bits is refused with its field and value") {
  CHECK(to_metrics(Unsigned{9223372036854775807U}).at("samples") ==
        MetricValue{std::numeric_limits<std::int64_t>::max()});
  CHECK(thrown_error([] { (void)to_metrics(Unsigned{9223372036854775808U}); }) ==
        "invalid_report: metric 'samples': must be at most 9223372036854775807 (got 9223372036854775808); report "
        "it as a double");
}

TEST_CASE("a NaN in a report is kept") {
  CHECK(std::isnan(to_metrics(Epoch{0, std::nan(""), 0.0F}).number("loss").value()));
}

TEST_CASE("a field with the name of an automatic metric is refused each time it is asked, with its name") {
  for (int i = 0; i < 2; ++i) {
    CHECK(thrown_error([] { check_report_fields<Automatic>(); }) ==
          "invalid_report: report field 'timestamp': has the name of a metric that every report gains; rename it");
  }
}

TEST_CASE("every automatic name is refused as a field") {
  for (auto const name : automatic_metric_names()) {
    CAPTURE(name);
    CHECK(thrown_error([&] { detail::check_field_names({std::string{name}}); }).find(name) != std::string::npos);
  }
}

TEST_CASE("more fields than a line of all metrics may have, and a name that is no text, are refused") {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < max_metrics - automatic_metric_names().size(); ++i) names.push_back(std::to_string(i));
  detail::check_field_names(names);
  names.push_back("one more");
  CHECK(thrown_error([&] { detail::check_field_names(names); }) ==
        "invalid_report: a report: has 4089 fields, and 4088 are the most beside those that every report gains; report "
        "fewer, or write others into a file of a checkpoint");
  CHECK(thrown_error([] { detail::check_field_names({"a\xE9"}); }) ==
        "invalid_report: report field 'a\xEF\xBF\xBD': has a name that is not UTF-8; rename it");
}

TEST_CASE("two fields of one name and a field without a name are refused") {
  CHECK(thrown_error([] { check_report_fields<Twice>(); }) ==
        "invalid_report: report field 'epoch': is there twice; rename one of them");
  CHECK(thrown_error([] { check_report_fields<Nameless>(); }) ==
        "invalid_report: a report's field: has an empty name; give it one");
}

TEST_CASE("of thousands of fields the one that is there twice is refused, wherever it stands") {
  std::vector<std::string> names;
  for (int i = 0; i < 4000; ++i) names.push_back("layer." + std::to_string(i));
  for (auto const second : {std::size_t{1}, std::size_t{2000}, std::size_t{3999}}) {
    auto const kept = std::exchange(names[second], names[second - 1]);
    CHECK(thrown_error([&] { detail::check_field_names(names); }) ==
          "invalid_report: report field '" + names[second] + "': is there twice; rename one of them");
    names[second] = kept;
  }
  detail::check_field_names(names);
}

TEST_CASE("names that are automatic only without the struct around them are accepted") {
  check_report_fields<NestedAutomatic>();
  check_report_fields<Everything>();
}
