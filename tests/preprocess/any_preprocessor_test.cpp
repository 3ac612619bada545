// SPDX-License-Identifier: Apache-2.0
#include <raytrain/preprocess/any_preprocessor.hpp>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/chain.hpp>
#include <raytrain/preprocess/fit_rows.hpp>
#include <raytrain/preprocess/preprocessor.hpp>
#include <raytrain/preprocess/preprocessor_json.hpp>
#include <raytrain/preprocess/standard_scaler.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/thrown_error.hpp"

using raytrain::AnyPreprocessor;
using raytrain::Chain;
using raytrain::Dataset;
using raytrain::FitRows;
using raytrain::StandardScaler;
using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;

namespace {

/// A preprocessor of a program's own: adds the same number to a column.
struct Offset {
  static constexpr std::string_view type_name = "Offset";
  std::string column{};
  double offset = 0;

  void fit(FitRows const& /*rows*/) {}
  [[nodiscard]] auto is_fitted() const -> bool { return true; }
  [[nodiscard]] auto transform(Dataset const& dataset) const -> Dataset {
    std::vector<double> values;
    for (auto const value : dataset.column(column).as<double>()) values.push_back(value + offset);
    return dataset.with_column({column, std::move(values)});
  }

  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(column), CEREAL_NVP(offset));
  }
};

/// One archetype for each requirement of the concept.
struct WithoutName : Offset {
  static constexpr int type_name = 1;
};
struct WithoutFit : Offset {
  void fit(Dataset const& rows) = delete;
  void fit() {}
};
struct FitsToSomething : Offset {
  auto fit(FitRows const& /*rows*/) -> int { return 1; }
};
struct MayNotBeFitted : Offset {
  void is_fitted() const {}
};
struct TransformsInPlace : Offset {
  void transform(Dataset& dataset) const;
};
struct CannotBeCopied : Offset {
  CannotBeCopied() = default;
  CannotBeCopied(CannotBeCopied const&) = delete;
};
struct WithoutFields {
  static constexpr std::string_view type_name = "WithoutFields";
  void fit(FitRows const& rows);
  [[nodiscard]] auto is_fitted() const -> bool;
  [[nodiscard]] auto transform(Dataset const& dataset) const -> Dataset;
};
static_assert(raytrain::Preprocessor<Offset>);
static_assert(!raytrain::InvertiblePreprocessor<Offset>);
static_assert(!raytrain::Preprocessor<WithoutName>);
static_assert(!raytrain::Preprocessor<WithoutFit>);
static_assert(!raytrain::Preprocessor<FitsToSomething>);
static_assert(!raytrain::Preprocessor<MayNotBeFitted>);
static_assert(!raytrain::Preprocessor<TransformsInPlace>);
static_assert(!raytrain::Preprocessor<CannotBeCopied>);
static_assert(!raytrain::Preprocessor<WithoutFields>);

/// One that no test registers.
struct OnlyHeld : Offset {
  static constexpr std::string_view type_name = "OnlyHeld";
};

struct DropsRows : Offset {
  static constexpr std::string_view type_name = "DropsRows";
  [[nodiscard]] auto transform(Dataset const& dataset) const -> Dataset { return dataset.head(1); }
};

/// Another type of a name that is taken.
struct OtherOffset : Offset {};

auto some_rows() -> Dataset {
  return Dataset::from_columns({{"x", std::vector<double>{0.1, 2.7, -1e-300}}, {"y", std::vector<float>{1, 2, 4}}});
}

TEST_CASE("a fitted preprocessor comes back from JSON bit by bit, within chains and from a file") {
  raytrain::register_preprocessor<Offset>();
  raytrain::testing::TemporaryFolder const folder;
  AnyPreprocessor fitted{
      Chain{StandardScaler{{"x"}}, AnyPreprocessor{Chain{Offset{"x", 0.3}, StandardScaler{{"y", "x"}}}}}};
  fitted.fit(some_rows());
  save_preprocessor(fitted, folder.path() / "prep.json");
  auto const loaded = raytrain::load_preprocessor(folder.path() / "prep.json");
  CHECK(loaded.is_fitted());
  CHECK(to_json(loaded) == to_json(fitted));
  auto const expected = fitted.transform(some_rows()).column("x");
  auto const values = loaded.transform(some_rows()).column("x");
  for (std::size_t i = 0; i < 3; ++i) CHECK(values.as<double>()[i] == expected.as<double>()[i]);
}

TEST_CASE("a preprocessor that is not fitted comes back as such") {
  auto const loaded = raytrain::preprocessor_from_json(to_json(StandardScaler{{"x"}}));
  CHECK(!loaded.is_fitted());
  check_contains(thrown_error([&] { (void)loaded.transform(some_rows()); }),
                 "StandardScaler::transform: it has not learnt from any rows yet");
}

TEST_CASE("JSON of a type that nobody has registered, of a newer version, or of anything else is refused") {
  auto const read = [](std::string_view text) {
    return thrown_error([&] { (void)raytrain::preprocessor_from_json(text, "prep.json"); });
  };
  check_contains(read(R"({"type": "Mine", "version": 1, "state": {}})"),
                 "prep.json: it must be a preprocessor of one of the types Chain, ");
  check_contains(read(R"({"type": "Mine", "version": 1, "state": {}})"),
                 "and is a 'Mine': call raytrain::register_preprocessor of this type before");
  check_contains(read(R"({"type": "StandardScaler", "version": 2, "state": {}})"),
                 "a StandardScaler of version 1 at most, and is one of 2, by a newer program");
  check_contains(read(R"({"type": "StandardScaler", "version": 1, "state": {"columns": []}})"),
                 "'state.scales' is missing");
  check_contains(read(R"({"type": "Chain", "version": 1, "state": {"steps": [{"type": 3}]}})"),
                 "'state.steps[0]' must be a preprocessor");
  check_contains(read("[]"), "it must be a preprocessor");
  check_contains(read(""), "prep.json");
}

TEST_CASE("a type that was held once is read back without being registered") {
  auto const json = to_json(AnyPreprocessor{Chain{AnyPreprocessor{OnlyHeld{{"x", 0.25}}}}});
  auto const loaded = raytrain::preprocessor_from_json(json);
  CHECK(to_json(loaded) == json);
  CHECK(loaded.as<Chain>().step<OnlyHeld>().offset == 0.25);
}

TEST_CASE("a name that another type has is refused") {
  raytrain::register_preprocessor<Offset>();
  check_contains(thrown_error([] { raytrain::register_preprocessor<OtherOffset>(); }), "another type has this name");
  for (auto attempt = 0; attempt < 2; ++attempt) {
    check_contains(thrown_error([] {
                     (void)AnyPreprocessor{OtherOffset{{"x", 1}}};
                   }),
                   "the preprocessor 'Offset': another type has this name");
  }
}

TEST_CASE("one that gives another number of rows is refused, and so is what none can do") {
  check_contains(thrown_error([] { (void)AnyPreprocessor{DropsRows{}}.transform(some_rows()); }), "made 1 rows of 3");
  check_contains(thrown_error([] { (void)AnyPreprocessor{}.transform(some_rows()); }), "it holds no preprocessor");
  check_contains(thrown_error([] { (void)AnyPreprocessor{Offset{"x"}}.inverse_transform(some_rows()); }),
                 "Offset::inverse_transform: there is none");
  check_contains(thrown_error([] { (void)AnyPreprocessor{Offset{"x"}}.as<StandardScaler>(); }), "it holds a Offset");
}

TEST_CASE("a fit that fails leaves what was learnt before") {
  AnyPreprocessor scaler{StandardScaler{{"x"}}};
  scaler.fit(some_rows());
  auto const before = to_json(scaler);
  check_contains(thrown_error([&] {
                   scaler.fit(Dataset::from_columns({{"z", std::vector<float>{1}}}));
                 }),
                 "column 'x': is not in the dataset");
  CHECK(to_json(scaler) == before);
}

}  // namespace
