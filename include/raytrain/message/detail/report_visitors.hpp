// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <raytrain/core/metrics.hpp>
#include <raytrain/message/fields.hpp>

namespace raytrain::detail {

template <class T>
inline constexpr bool is_metric_type = std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, std::string>;

/// Base of what walks over a report's fields: hands each to Derived's `leaf(full name, value)`, in the order of their
/// listing, with those of a struct inside it as "outer.inner".
template <class Derived>
class ReportVisitor : public FieldVisitor<Derived> {
 public:
  template <class T>
  void field(std::string_view name, T& value) {
    using Plain = std::remove_cv_t<T>;
    static_assert(is_metric_type<Plain> || HasFields<Plain>,
                  "a report's field must be a bool, a number, an enum, std::string, or a struct with serialize()");
    auto& self = static_cast<Derived&>(*this);
    if constexpr (is_metric_type<Plain>) {
      if (prefix_.empty()) {
        self.leaf(name, value);
      } else {
        self.leaf(prefix_ + std::string{name}, value);
      }
    } else if constexpr (HasFields<Plain>) {
      auto const outer = prefix_.size();
      prefix_ += name;
      prefix_ += '.';
      visit_fields(self, value);
      prefix_.resize(outer);
    }
  }

 private:
  std::string prefix_;
};

/// Counts only; a field without a name is for the visitor that comes after to refuse.
class FieldCounter {
 public:
  template <class... Fields>
  auto operator()(Fields&&... fields) -> FieldCounter& {
    (count_one(fields), ...);
    return *this;
  }
  template <class Field>
  auto operator&(Field&& field) -> FieldCounter& {
    return (*this)(field);
  }
  [[nodiscard]] auto count() const noexcept -> std::size_t { return count_; }

 private:
  template <class Field>
  void count_one(Field& field) {
    if constexpr (requires { requires HasFields<std::remove_cvref_t<decltype(field.value)>>; }) {
      visit_fields(*this, field.value);
    } else {
      ++count_;
    }
  }

  std::size_t count_ = 0;
};

class NameCollector : public ReportVisitor<NameCollector> {
 public:
  template <class T>
  void leaf(std::string_view name, T&) {
    names_.emplace_back(name);
  }
  [[nodiscard]] auto take() && -> std::vector<std::string> { return std::move(names_); }

 private:
  std::vector<std::string> names_;
};

class MetricsWriter : public ReportVisitor<MetricsWriter> {
 public:
  explicit MetricsWriter(Metrics& metrics) : metrics_{metrics} {}

  template <class T>
  void leaf(std::string_view name, T const& value) {
    if constexpr (std::is_enum_v<T>) {
      leaf(name, static_cast<std::underlying_type_t<T>>(value));
    } else {
      metrics_.set(name, value);
    }
  }

 private:
  Metrics& metrics_;
};

class MetricsReader : public ReportVisitor<MetricsReader> {
 public:
  explicit MetricsReader(Metrics const& metrics) : metrics_{metrics} {}

  template <class T>
  void leaf(std::string_view name, T& value) {
    auto const& metric = metrics_.at(name);
    if constexpr (std::is_enum_v<T>) {
      std::underlying_type_t<T> number{};
      leaf(name, number);
      value = static_cast<T>(number);
    } else if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::string>) {
      auto const* const found = std::get_if<T>(&metric);
      if (found == nullptr) refuse(name, std::is_same_v<T, bool> ? "true or false" : "text");
      value = *found;
    } else if constexpr (std::is_integral_v<T>) {
      auto const* const found = std::get_if<std::int64_t>(&metric);
      if (found == nullptr || std::cmp_less(*found, std::numeric_limits<T>::min()) ||
          std::cmp_greater(*found, std::numeric_limits<T>::max())) {
        refuse(name, "an integer that its type can hold");
      }
      value = static_cast<T>(*found);
    } else {
      auto const* const integer = std::get_if<std::int64_t>(&metric);
      auto const* const found = std::get_if<double>(&metric);
      if (found == nullptr && integer == nullptr) refuse(name, "a number");
      value = found != nullptr ? static_cast<T>(*found) : static_cast<T>(*integer);
      constexpr auto infinity = std::numeric_limits<T>::infinity();
      auto const is_infinite = value == infinity || value == -infinity;
      if (found != nullptr && is_infinite && *found != value) refuse(name, "a number that its type can hold");
    }
  }

 private:
  [[noreturn]] static void refuse(std::string_view name, std::string const& expected);

  Metrics const& metrics_;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/message/detail/report_visitors-inl.hpp>
#endif
