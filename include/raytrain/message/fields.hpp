// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include <cereal/cereal.hpp>

namespace raytrain::detail {

template <class T>
inline constexpr bool is_named_field = false;
template <class T>
inline constexpr bool is_named_field<cereal::NameValuePair<T>> = true;

/// Base of what walks over the fields of a struct in place of an archive: hands each to Derived's `field(name, value)`.
template <class Derived>
class FieldVisitor {
 public:
  template <class... Fields>
  auto operator()(Fields&&... fields) -> Derived& {
    (visit(fields), ...);
    return static_cast<Derived&>(*this);
  }

  template <class Field>
  auto operator&(Field&& field) -> Derived& {
    return (*this)(field);
  }

 private:
  template <class Field>
  void visit(Field& field) {
    constexpr bool named = is_named_field<std::remove_cvref_t<Field>>;
    static_assert(named, "every field that serialize() lists needs a name: write a(CEREAL_NVP(loss)), not a(loss)");
    if constexpr (named) static_cast<Derived&>(*this).field(field.name, field.value);
  }
};

/// Accepts anything, so that asking whether a struct has fields never looks into its `serialize`.
struct AnyVisitor {
  template <class... Fields>
  auto operator()(Fields&&...) -> AnyVisitor& {
    return *this;
  }
  template <class Field>
  auto operator&(Field&&) -> AnyVisitor& {
    return *this;
  }
};

template <class T, class Visitor>
concept HasMemberFields = requires(Visitor& visitor, T& value) {
  cereal::access::member_serialize(visitor, value);
};

template <class T, class Visitor>
concept HasFreeFields = requires(Visitor& visitor, T& value) {
  serialize(visitor, value);
};

/// A struct with `serialize`, as a member or found by argument-dependent lookup.
template <class T>
concept HasFields = std::is_class_v<T> &&(HasMemberFields<T, AnyVisitor> || HasFreeFields<T, AnyVisitor>);

template <class Visitor, class T>
void visit_fields(Visitor& visitor, T& value) {
  if constexpr (HasMemberFields<T, AnyVisitor>) {
    cereal::access::member_serialize(visitor, value);
  } else {
    serialize(visitor, value);
  }
}

}  // namespace raytrain::detail
