// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include <raytrain/core/error.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/message/json.hpp>
#include <raytrain/preprocess/fit_rows.hpp>
#include <raytrain/preprocess/preprocessor.hpp>

namespace raytrain {

class AnyPreprocessor;
class Chain;

namespace detail {

/// Of what a preprocessor's `serialize` names: `P::version`, or 1.
template <class P>
inline constexpr std::uint32_t state_version = 1;
template <class P>
requires requires { P::version; }
inline constexpr std::uint32_t state_version<P> = P::version;

/// What JSON has of a preprocessor.
template <class P>
struct PreprocessorState {
  std::string type{};
  std::uint32_t version = 0;
  P state{};

  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(type), CEREAL_NVP(version), CEREAL_NVP(state));
  }
};

/// Reads the preprocessors of one type.
struct PreprocessorType {
  std::type_info const* type = nullptr;
  std::uint32_t newest_version = 1;
  AnyPreprocessor (*read)(JsonValue const& json, JsonReader& reader) = nullptr;
};

/// Under its name in JSON. Errors: `invalid_call` where another type has it.
void add_preprocessor_type(std::string_view name, PreprocessorType type);

/// The same, of the type P; true.
template <class P>
auto add_preprocessor_type() -> bool;

/// Errors: `invalid_data` for a name that no type has, listing those that do; it says what `reader` reads.
[[nodiscard]] auto find_preprocessor_type(JsonValue const& json, JsonReader& reader) -> PreprocessorType;

}  // namespace detail

/// A preprocessor of any type, or none.
///
/// Threads: `const` functions from any thread.
class AnyPreprocessor {
 public:
  /// None.
  AnyPreprocessor() = default;

  /// Not explicit: `.preprocessor = raytrain::StandardScaler{{"age"}}`. From then on checkpoints and files with a
  /// preprocessor of this type can be read.
  ///
  /// Errors: as `register_preprocessor`.
  template <class P>
  requires(!std::same_as<P, AnyPreprocessor>) && Preprocessor<P>  //
      AnyPreprocessor(P preprocessor)                             // NOLINT(google-explicit-constructor)
      : held_{std::make_shared<Held<P> const>(std::move(preprocessor))} {
    [[maybe_unused]] static bool const is_added = detail::add_preprocessor_type<P>();
  }

  [[nodiscard]] explicit operator bool() const noexcept { return held_ != nullptr; }

  /// The one that is held. Errors: `invalid_call` for one of another type, and for none.
  template <Preprocessor P>
  [[nodiscard]] auto as() const -> P const& {
    auto const* const held = dynamic_cast<Held<P> const*>(held_.get());
    if (held != nullptr) return held->preprocessor;
    throw Error{Errc::invalid_call, "AnyPreprocessor::as<" + std::string{P::type_name} + ">",
                "it holds " + (held_ ? "a " + type_name() : std::string{"none"}), "ask for the type that it holds"};
  }

  /// "StandardScaler". Errors of this and what follows: `invalid_call` where there is none.
  [[nodiscard]] auto type_name() const -> std::string;

  /// Whether `transform` may be called.
  [[nodiscard]] auto is_fitted() const -> bool;

  /// Whether there is anything to learn: not where the type's `is_fitted` is a static function, and not by a `Chain` of
  /// such types.
  [[nodiscard]] auto learns_from_rows() const -> bool { return held("learns_from_rows").learns_from_rows(); }

  /// Learns from the rows, again where it has learnt before. On several workers a group operation.
  ///
  /// Errors: as of the preprocessor; it is as it was then.
  void fit(FitRows const& rows);

  /// Rows in the order and the number of the dataset's.
  ///
  /// Errors: `invalid_call` before `fit`, and for a preprocessor that gives another number of rows; as of the
  ///         preprocessor.
  [[nodiscard]] auto transform(Dataset const& dataset) const -> Dataset;

  /// `fit` and `transform` of the same rows.
  [[nodiscard]] auto fit_transform(Dataset const& dataset) -> Dataset;

  /// Gives back what `transform` was given, as far as it has kept it.
  ///
  /// Errors: `invalid_call` before `fit`, and for a preprocessor that cannot; as of the preprocessor.
  [[nodiscard]] auto inverse_transform(Dataset const& dataset) const -> Dataset;

  /// For `write_json` and `read_json`, within others.
  void write_as_json(detail::JsonWriter& writer) const { held("to_json").write(writer); }
  void read_from_json(JsonValue const& json, detail::JsonReader& reader);

 private:
  struct Interface {
    Interface() = default;
    Interface(Interface const&) = delete;
    auto operator=(Interface const&) -> Interface& = delete;
    virtual ~Interface() = default;
    [[nodiscard]] virtual auto type_name() const -> std::string_view = 0;
    [[nodiscard]] virtual auto is_fitted() const -> bool = 0;
    [[nodiscard]] virtual auto learns_from_rows() const -> bool = 0;
    [[nodiscard]] virtual auto fitted(FitRows const& rows) const -> std::shared_ptr<Interface const> = 0;
    [[nodiscard]] virtual auto transform(Dataset const& dataset) const -> Dataset = 0;
    [[nodiscard]] virtual auto inverse_transform(Dataset const& dataset) const -> Dataset = 0;
    virtual void write(detail::JsonWriter& writer) const = 0;
  };

  template <class P>
  struct Held final : Interface {
    explicit Held(P of) : preprocessor{std::move(of)} {}

    [[nodiscard]] auto type_name() const -> std::string_view override { return P::type_name; }
    [[nodiscard]] auto is_fitted() const -> bool override { return preprocessor.is_fitted(); }
    [[nodiscard]] auto learns_from_rows() const -> bool override {
      if constexpr (std::same_as<P, Chain>) {
        return preprocessor.learns_from_rows();
      } else {
        return detail::learns_from_rows<P>;
      }
    }
    [[nodiscard]] auto fitted(FitRows const& rows) const -> std::shared_ptr<Interface const> override {
      auto copy = preprocessor;
      copy.fit(rows);
      return std::make_shared<Held const>(std::move(copy));
    }
    [[nodiscard]] auto transform(Dataset const& dataset) const -> Dataset override {
      return preprocessor.transform(dataset);
    }
    [[nodiscard]] auto inverse_transform(Dataset const& dataset) const -> Dataset override {
      if constexpr (InvertiblePreprocessor<P>) {
        return preprocessor.inverse_transform(dataset);
      } else {
        throw Error{Errc::invalid_call, std::string{P::type_name} + "::inverse_transform",
                    "there is none: what it was given is not kept", "keep the columns under other names before"};
      }
    }
    void write(detail::JsonWriter& writer) const override {
      writer.write(detail::PreprocessorState<P>{std::string{P::type_name}, detail::state_version<P>, preprocessor});
    }

    P preprocessor;
  };

  [[nodiscard]] auto held(char const* function) const -> Interface const&;

  std::shared_ptr<Interface const> held_;
};

namespace detail {

template <class P>
auto add_preprocessor_type() -> bool {
  add_preprocessor_type(P::type_name, {&typeid(P), state_version<P>, [](JsonValue const& json, JsonReader& reader) {
                                         PreprocessorState<P> read;
                                         reader.read(json, read);
                                         if constexpr (requires { read.state.check_state(); }) read.state.check_state();
                                         return AnyPreprocessor{std::move(read.state)};
                                       }});
  return true;
}

/// The rows as the preprocessor makes them; as they are where there is none.
[[nodiscard]] inline auto prepared_by(AnyPreprocessor const& preprocessor, Dataset const& rows) -> Dataset {
  return preprocessor ? preprocessor.transform(rows) : rows;
}

}  // namespace detail

/// Lets `load_preprocessor` and checkpoints read a preprocessor of the program's own before it has held one in an
/// `AnyPreprocessor`: called once, at its beginning.
///
/// Threads: any. Errors: `invalid_call` for a type's name that another type has.
template <Preprocessor P>
void register_preprocessor() {
  detail::add_preprocessor_type<P>();
}

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/any_preprocessor-inl.hpp>
#endif
