// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/core/metrics.hpp>
#include <raytrain/message/detail/json_parser.hpp>
#include <raytrain/message/fields.hpp>
#include <raytrain/message/named_enum.hpp>

namespace raytrain::detail {

/// "NaN", "Infinity" and "-Infinity" as doubles.
[[nodiscard]] auto special_number(std::string_view text) -> std::optional<double>;

/// Reads one JSON value into an object of known type, and knows where in the document it is.
class JsonReader {
 public:
  explicit JsonReader(std::string_view what) : what_{what} {}

  void read(JsonValue const& json, bool& value) { value = expect<bool>(json, "true or false"); }

  template <std::integral I>
  void read(JsonValue const& json, I& value) {
    auto const* const integer = json.get_if<std::int64_t>();
    auto const* const large = json.get_if<std::uint64_t>();
    if (integer != nullptr && std::in_range<I>(*integer)) {
      value = static_cast<I>(*integer);
    } else if (large != nullptr && std::in_range<I>(*large)) {
      value = static_cast<I>(*large);
    } else {
      refuse(json, "an integer from " + std::to_string(std::numeric_limits<I>::min()) + " to " +
                       std::to_string(std::numeric_limits<I>::max()));
    }
  }

  template <std::floating_point F>
  void read(JsonValue const& json, F& value) {
    auto const* const text = json.get_if<std::string>();
    if (auto const special = text != nullptr ? special_number(*text) : std::nullopt) {
      value = static_cast<F>(*special);
    } else if (auto const* const real = json.get_if<double>()) {
      value = static_cast<F>(*real);
    } else if (auto const* const integer = json.get_if<std::int64_t>()) {
      value = static_cast<F>(*integer);
    } else {
      refuse(json, "a number");
    }
  }

  void read(JsonValue const& json, std::string& value) { value = expect<std::string>(json, "text"); }

  void read(JsonValue const& json, Metrics& metrics);

  template <NamedEnum E>
  void read(JsonValue const& json, E& value) {
    auto const names = enum_names(value);
    auto const* const text = json.get_if<std::string>();
    auto const found = text == nullptr ? names.end() : std::ranges::find(names, *text);
    if (found == names.end()) {
      std::string expected = "one of";
      for (auto const name : names) (expected += expected.ends_with("of") ? " " : ", ") += name;
      refuse(json, expected);
    }
    value = static_cast<E>(found - names.begin());
  }

  template <class T>
  void read(JsonValue const& json, std::optional<T>& value) {
    value.reset();
    if (json.get_if<std::nullptr_t>() == nullptr) read(json, value.emplace());
  }

  template <class T>
  void read(JsonValue const& json, std::vector<T>& values) {
    auto const& array = expect<JsonArray>(json, "an array");
    values.clear();
    values.reserve(array.size());
    for (auto const& element : array) {
      within("[" + std::to_string(values.size()) + "]", [&] { read(element, values.emplace_back()); });
    }
  }

  template <class T>
  void read(JsonValue const& json, std::map<std::string, T>& values) {
    values.clear();
    for (auto const& member : expect<JsonObject>(json, "an object")) {
      auto const [entry, is_new] = values.try_emplace(member.name);
      if (!is_new) refuse_field(member.name, "appears twice");
      within(member.name, [&, &value = entry->second] { read(member.value, value); });
    }
  }

  /// Of a value that reads itself.
  template <class T>
  requires requires(T& value, JsonValue const& json, JsonReader& reader) { value.read_from_json(json, reader); }
  void read(JsonValue const& json, T& value) { value.read_from_json(json, *this); }

  template <HasFields T>
  void read(JsonValue const& json, T& value) {
    Fields fields{*this, expect<JsonObject>(json, "an object")};
    visit_fields(fields, value);
    fields.refuse_others();
  }

  /// Errors: `invalid_data`, always: the value must be `expected`, and is not.
  [[noreturn]] void refuse(JsonValue const& json, std::string const& expected) const;

 private:
  /// The fields of one object, in any order.
  class Fields : public FieldVisitor<Fields> {
   public:
    Fields(JsonReader& reader, JsonObject const& object) : reader_{reader}, object_{object} {}

    template <class T>
    void field(std::string_view name, T& value) {
      if (auto const* const member = take(name)) {
        reader_.within(name, [&] { reader_.read(member->value, value); });
      } else if constexpr (requires { value.reset(); }) {
        value.reset();
      } else {
        reader_.refuse_field(name, "is missing");
      }
    }

    void refuse_others() const;

   private:
    /// The first member of that name, or null.
    auto take(std::string_view name) -> JsonMember const*;

    JsonReader& reader_;
    JsonObject const& object_;
    std::vector<JsonMember const*> known_;
  };

  template <class T>
  [[nodiscard]] auto expect(JsonValue const& json, char const* expected) const -> T const& {
    auto const* const value = json.get_if<T>();
    if (value == nullptr) refuse(json, expected);
    return *value;
  }

  [[nodiscard]] auto metric(JsonValue const& json) const -> MetricValue;

  template <class Body>
  void within(std::string_view name, Body&& body) {
    auto const length = path_.size();
    if (!path_.empty() && !name.starts_with('[')) path_ += '.';
    path_ += name;
    body();
    path_.resize(length);
  }

  [[noreturn]] void refuse_field(std::string_view name, std::string_view problem) const;

  [[nodiscard]] static auto shown(JsonValue const& json) -> std::string;

  std::string_view what_;
  std::string path_;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/message/detail/json_reader-inl.hpp>
#endif
