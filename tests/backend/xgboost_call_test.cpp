// SPDX-License-Identifier: Apache-2.0
#include <raytrain/backend/xgboost/detail/xgboost_library.hpp>

#include <clocale>
#include <cmath>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include <raytrain/backend/xgboost/booster.hpp>

#include "../support/thrown_error.hpp"

using namespace raytrain;
using raytrain::detail::readable_xgboost_text;
using raytrain::testing::check_contains;
using raytrain::testing::thrown_error;

TEST_CASE("of what XGBoost says the message stays, without times, places in its sources and the stack") {
  CHECK(readable_xgboost_text("[08:28:27] ../src/learner.cc:83: Check failed: a > b (1 vs. 2) : Too small.\n"
                              "Stack trace:\n  [bt] (0) libxgboost.so(+0x11031e) [0x7fec7d11031e]\n\n") ==
        "Check failed: a > b (1 vs. 2) : Too small.");
  CHECK(readable_xgboost_text("Allreduce failed") == "Allreduce failed");
  CHECK(readable_xgboost_text("[label] is missing\nin the file [a.cc:3] of it") ==
        "[label] is missing in the file [a.cc:3] of it");
  CHECK(readable_xgboost_text("a.cc: no such file") == "a.cc: no such file");
  CHECK(readable_xgboost_text("note: 12: this") == "note: 12: this");
  CHECK(readable_xgboost_text("\n\n") == "failed without a message");
  CHECK(readable_xgboost_text("Stack trace:\n") == "failed without a message");
}

TEST_CASE("of a chain of causes the outermost comes first, in one line") {
  CHECK(readable_xgboost_text("[08:28:27] /workspace/src/collective/result.cc:83: [coll_c_api.cc:38|08:28:27]:\n\n"
                              "- [allreduce.cc:135|08:28:27]: Ring Allreduce failed.\n"
                              "- [loop.cc:101|08:28:27]: Encountered EOF. The other end is likely closed.\n"
                              "Stack trace:\n  [bt] (0) x\n") ==
        "Ring Allreduce failed: Encountered EOF. The other end is likely closed.");
}

TEST_CASE("metrics are read with a decimal point or comma and grouped digits, whatever the locale of the process is") {
  auto const check = [] {
    for (auto const* const text : {"[3]\tvalid-logloss:0.25\ta-b-auc:nan\tvalid-rmse:-inf",
                                   "[3]\tvalid-logloss:0,25\ta-b-auc:nan\tvalid-rmse:-inf"}) {
      auto const evaluations = raytrain::detail::evaluations_in(text);
      REQUIRE(evaluations.size() == 3);
      CHECK(evaluations[0].name == "valid-logloss");
      CHECK(evaluations[0].value == 0.25);
      CHECK(evaluations[1].name == "a-b-auc");
      CHECK(std::isnan(evaluations[1].value));
      CHECK(evaluations[2].value == -std::numeric_limits<double>::infinity());
    }
  };
  check();
  for (auto const* const text : {"[0]\tvalid-rmse:1,234.500000", "[0]\tvalid-rmse:1.234,500000",
                                 "[0]\tvalid-rmse:1\u202f234,500000", "[0]\tvalid-rmse:1234.500000"}) {
    CAPTURE(text);
    CHECK(raytrain::detail::evaluations_in(text).at(0).value == 1234.5);
  }
  for (auto const* const name : {"de_DE.UTF-8", "de_DE", "fr_FR.UTF-8"}) {  // where the system has one of them
    CAPTURE(name);
    if (std::setlocale(LC_NUMERIC, name) != nullptr) check();
  }
  std::setlocale(LC_NUMERIC, "C");
  CHECK(raytrain::detail::evaluations_in("[0]").empty());
}

TEST_CASE("of XGBoost's log the warnings are kept, each text once until they are taken") {
  using raytrain::detail::xgboost_warning;
  CHECK(xgboost_warning("[11:46:19] WARNING: ./src/learner.cc:767: \nParameters: { \"foo\" } are not used.\n") ==
        "Parameters: { \"foo\" } are not used.");
  CHECK(xgboost_warning("[11:46:19] WARNING: /a/b/auc.cc:328: Only positive samples.") == "Only positive samples.");
  CHECK(xgboost_warning("[11:46:19] INFO: ./src/learner.cc:767: WARNING: all is well") == "");
  CHECK(xgboost_warning("[0] train-auc:0.5") == "");
}

TEST_CASE("a call that fails throws the function's name, XGBoost's text and what to do; one that does not, nothing") {
  CHECK_NOTHROW(detail::xgboost_call(0, "XGDMatrixNumRow"));
  auto const text = thrown_error([] {
    DMatrixHandle matrix = nullptr;
    detail::xgboost_call(XGDMatrixCreateFromFile("/no/such/file?format=libsvm", 1, &matrix), "XGDMatrixCreateFromFile",
                         "name a file that exists");
  });
  check_contains(text, "backend: XGDMatrixCreateFromFile: ");
  check_contains(text, "/no/such");
  check_contains(text, "; name a file that exists");
  CHECK(text.find("Stack trace") == std::string::npos);
  CHECK(text.find('\n') == std::string::npos);
  CHECK(text.find(".cc:") == std::string::npos);
}
