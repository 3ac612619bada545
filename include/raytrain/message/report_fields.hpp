// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/core/metrics.hpp>
#include <raytrain/message/detail/report_visitors.hpp>

namespace raytrain {

/// A struct whose fields become metrics:
///
///     template <class A> void serialize(A& a) { a(CEREAL_NVP(epoch), CEREAL_NVP(loss)); }
///
/// What the compiler checks only where the struct is used: every field has a name and is a bool, a number, an enum
/// (its number), std::string or such a struct, whose fields are called "outer.inner".
/// What it cannot check: `serialize` lists the same fields for every object.
template <class R>
concept Reportable = std::default_initializable<R> && detail::HasFields<R>;

/// Errors: `invalid_report` for an integer that is above the largest std::int64_t, naming its field.
template <Reportable R>
[[nodiscard]] auto to_metrics(R const& report) -> Metrics {
  // serialize() is not const because archives also load; these visitors only read.
  auto& fields = const_cast<R&>(report);
  detail::FieldCounter counter;
  detail::visit_fields(counter, fields);
  Metrics metrics;
  metrics.reserve(counter.count());
  detail::MetricsWriter writer{metrics};
  detail::visit_fields(writer, fields);
  return metrics;
}

/// As they are.
[[nodiscard]] auto to_metrics(Metrics const& metrics) -> Metrics;

/// The report that `to_metrics` made; metrics that are no fields of `R` are passed over.
///
/// Errors: `not_found` for a field without a metric, `invalid_report` for a metric of another type or out of range.
template <Reportable R>
[[nodiscard]] auto metrics_cast(Metrics const& metrics) -> R {
  R report{};
  detail::MetricsReader reader{metrics};
  detail::visit_fields(reader, report);
  return report;
}

/// Names of the metrics that a report of this type becomes, in order.
template <Reportable R>
[[nodiscard]] auto field_names() -> std::vector<std::string> {
  R report{};
  detail::NameCollector collector;
  detail::visit_fields(collector, report);
  return std::move(collector).take();
}

namespace detail {

void check_field_names(std::vector<std::string> const& names);

}  // namespace detail

/// Errors: `invalid_report` naming a field that has the name of an automatic metric or of another field.
///
/// Cost: none after the first call for a type that succeeds.
template <Reportable R>
void check_report_fields() {
  static bool const checked = (detail::check_field_names(field_names<R>()), true);
  (void)checked;
}

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/message/report_fields-inl.hpp>
#endif
