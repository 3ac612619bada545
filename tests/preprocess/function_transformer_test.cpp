// SPDX-License-Identifier: Apache-2.0
#include <raytrain/preprocess/function_transformer.hpp>

#include <cmath>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/any_preprocessor.hpp>
#include <raytrain/preprocess/chain.hpp>
#include <raytrain/preprocess/preprocessor.hpp>
#include <raytrain/preprocess/preprocessor_json.hpp>
#include <raytrain/preprocess/standard_scaler.hpp>

#include "../support/thrown_error.hpp"
#include "encoders.hpp"

using raytrain::AnyPreprocessor;
using raytrain::Dataset;
using raytrain::FunctionTransformer;
using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;
using raytrain::testing::values_of;

static_assert(raytrain::Preprocessor<FunctionTransformer>);

namespace {

auto log_income(Dataset const& rows) -> Dataset {
  std::vector<double> values;
  for (auto const value : rows.column("income").as<double>()) values.push_back(std::log1p(value));
  return rows.with_column({"income", std::move(values)});
}

auto incomes() -> Dataset { return Dataset::from_columns({{"income", std::vector<double>{0, 1'000, 3e6}}}); }

TEST_CASE("a function is called by its name, also after JSON and within a chain") {
  raytrain::register_function("log_income", log_income);
  FunctionTransformer const transformer{"log_income"};
  // scikit-learn 1.9.1: FunctionTransformer(numpy.log1p).transform([[0], [1000], [3e6]])
  auto const logs = values_of<double>(transformer.transform(incomes()), "income");
  CHECK(logs[0] == 0);
  CHECK(logs[1] == doctest::Approx(6.90875478));
  CHECK(logs[2] == doctest::Approx(14.91412318));
  raytrain::testing::check_comes_back_from_json(transformer, incomes());
  raytrain::Chain chain{transformer, raytrain::StandardScaler{{"income"}}};
  chain.fit(incomes());
  auto const& learnt = chain.steps()[1].as<raytrain::StandardScaler>().scales.at("income");
  CHECK(learnt.shift[0] == doctest::Approx((logs[1] + logs[2]) / 3));
}

TEST_CASE("a name that no function has is refused, and those that there are are listed") {
  raytrain::register_function("log_income", log_income);
  check_contains(thrown_error([] { FunctionTransformer{"log_incomes"}.fit(incomes()); }),
                 "not_found: FunctionTransformer::fit: no function has the name 'log_incomes'; there are log_income");
  check_contains(thrown_error([] { (void)FunctionTransformer{}.transform(incomes()); }),
                 "not_found: FunctionTransformer::transform: no function has the name ''");
  // What was stored is read without the function, whose name is looked up when it is used.
  auto const loaded = raytrain::preprocessor_from_json(to_json(FunctionTransformer{"of another program"}));
  check_contains(thrown_error([&] { (void)loaded.transform(incomes()); }), "'of another program'");
}

TEST_CASE("a name is given to the same function again, and to no other") {
  auto const add = [] { raytrain::register_function("first_row", [](Dataset const& rows) { return rows.head(1); }); };
  add();
  CHECK_NOTHROW(add());
  check_contains(thrown_error([] { raytrain::register_function("first_row", log_income); }),
                 "invalid_call: register_function of 'first_row': another function has this name");
  check_contains(thrown_error([] { raytrain::register_function("", log_income); }), "the name is empty or not UTF-8");
  check_contains(thrown_error([] { raytrain::register_function("\xff", log_income); }),
                 "the name is empty or not UTF-8");
  check_contains(thrown_error([] { raytrain::register_function("none", nullptr); }), "there is no function");
  check_contains(thrown_error([] { (void)AnyPreprocessor{FunctionTransformer{"first_row"}}.transform(incomes()); }),
                 "FunctionTransformer::transform: made 1 rows of 3");
}

}  // namespace
