// SPDX-License-Identifier: Apache-2.0
// Runs that go on with a preprocessor: the run's, one of the program's own, and another one.
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/any_preprocessor.hpp>
#include <raytrain/preprocess/chain.hpp>
#include <raytrain/preprocess/fit_rows.hpp>
#include <raytrain/preprocess/standard_scaler.hpp>

#include "prepared_run.hpp"

namespace {

/// A preprocessor of a program's own, which no test registers.
struct Doubled {
  static constexpr std::string_view type_name = "Doubled";
  double factor = 0;

  void fit(FitRows const& /*rows*/) { factor = 2; }
  [[nodiscard]] auto is_fitted() const -> bool { return factor != 0; }
  [[nodiscard]] auto transform(Dataset const& dataset) const -> Dataset {
    std::vector<double> values;
    for (auto const value : dataset.column("x").as<double>()) values.push_back(value * factor);
    return dataset.with_column({"x", std::move(values)});
  }

  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(factor));
  }
};

TEST_CASE("a run with a preprocessor of the program's own goes on, also where nobody registers it") {
  TemporaryFolder const folder;
  auto config = preparing_config(folder, 2);
  config.preprocessor = Doubled{};
  MinimalTrainer first{epochs_up_to(1), config};
  (void)first.fit();
  Seen seen;
  MinimalTrainer second{[&](TrainContext& ctx) { seen.add(ctx); }, config};
  (void)second.fit();
  CHECK(seen.first_valid_values == std::set<double>{4'999});
}

/// A preprocessor that makes another one when it learns.
struct Automatic {
  static constexpr std::string_view type_name = "Automatic";
  std::vector<AnyPreprocessor> made{};

  void fit(FitRows const& rows) {
    made = {StandardScaler{{"x"}}};
    made[0].fit(rows);
  }
  [[nodiscard]] auto is_fitted() const -> bool { return !made.empty(); }
  [[nodiscard]] auto transform(Dataset const& dataset) const -> Dataset { return made.at(0).transform(dataset); }

  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(made));
  }
};

TEST_CASE("a run goes on with what its preprocessor has learnt, also where that has made others") {
  TemporaryFolder const folder;
  auto config = preparing_config(folder, 2);
  config.preprocessor = Automatic{};
  MinimalTrainer first{epochs_up_to(1), config};
  auto const result = first.fit();
  for (auto const& preprocessor : {AnyPreprocessor{Automatic{}}, load_preprocessor(result.checkpoint().value())}) {
    config.preprocessor = preprocessor;
    Seen seen;
    MinimalTrainer second{[&](TrainContext& ctx) { seen.add(ctx); }, config};
    (void)second.fit();
    CHECK(seen.first_valid_values == std::set<double>{0});
  }
}

TEST_CASE("other settings than the run's, none, and one in a run without are refused when it goes on") {
  TemporaryFolder const folder;
  auto const config = preparing_config(folder, 1);
  MinimalTrainer first{epochs_up_to(1), config};
  (void)first.fit();
  auto const refused = [&](AnyPreprocessor preprocessor, TemporaryFolder const& in) {
    auto changed = preparing_config(in, 1);
    changed.preprocessor = std::move(preprocessor);
    changed.run.failure.max_failures = 3;
    MinimalTrainer trainer{epochs_up_to(2), changed};
    return message_of([&] { (void)trainer.fit(); });
  };
  contains(
      refused(Chain{StandardScaler{{"x"}}, StandardScaler{{"x"}}}, folder),
      "is a Chain that differs, in its settings or in what it has learnt, from the StandardScaler with which the run "
      "has trained until checkpoint 1");
  contains(refused(Chain{StandardScaler{{"x"}}}, folder), "is a Chain that differs");
  contains(refused({}, folder), "is not set, and the run has trained with one until checkpoint 1");
  TemporaryFolder const without;
  auto plain = preparing_config(without, 1);
  plain.preprocessor = {};
  MinimalTrainer trainer{epochs_up_to(1), plain};
  (void)trainer.fit();
  contains(refused(StandardScaler{{"x"}}, without), "is set, and the run has trained without one until checkpoint 1");
}

/// A preprocessor that calls itself by another name in JSON than in the list of known types.
struct Forgotten : Doubled {
  static inline std::string_view type_name = "Known";  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
};

TEST_CASE("a chain of other steps than the run's is refused, also where the program knows none of these") {
  TemporaryFolder const folder;
  auto config = preparing_config(folder, 1);
  config.preprocessor = Chain{Forgotten{}};
  Forgotten::type_name = "Forgotten";
  MinimalTrainer first{epochs_up_to(1), config};
  (void)first.fit();
  config.preprocessor = Chain{StandardScaler{{"x"}}};
  config.run.failure.max_failures = 3;
  MinimalTrainer second{epochs_up_to(2), config};
  contains(message_of([&] { (void)second.fit(); }),
           "is a Chain that differs, in its settings or in what it has learnt, from the Chain (Forgotten) with which");
}

}  // namespace
