// SPDX-License-Identifier: Apache-2.0
#include <raytrain/backend/lightgbm/detail/lightgbm_library.hpp>

#include <stdexcept>

#include <doctest/doctest.h>

#include <raytrain/backend/lightgbm/detail/lightgbm_library.hpp>

#include "../support/thrown_error.hpp"

using namespace raytrain;
using raytrain::detail::is_unused_parameter;
using raytrain::detail::readable_lightgbm_text;
using raytrain::testing::thrown_error;

TEST_CASE("of what LightGBM says the message stays, in one line and without the place in its sources") {
  CHECK(readable_lightgbm_text("Check failed: (num_data) > (0) at /src/io/dataset.cpp, line 12 .\n") ==
        "Check failed: (num_data) > (0)");
  CHECK(readable_lightgbm_text("Cannot look at this, line by line") == "Cannot look at this, line by line");
  CHECK(readable_lightgbm_text("one\ntwo\n") == "one two");
  CHECK(readable_lightgbm_text("\n") == "failed without a message");
}

TEST_CASE("a call that fails throws the function's name, LightGBM's text and what to do; one that does not, nothing") {
  CHECK_NOTHROW(detail::lightgbm_call(0, "LGBM_BoosterFree"));
  int iterations = 0;
  void* booster = nullptr;
  auto const load = [&] {
    detail::lightgbm_call(detail::lightgbm::LGBM_BoosterLoadModelFromString("no model", &iterations, &booster),
                          "LGBM_BoosterLoadModelFromString", "name a model");
  };
  CHECK(thrown_error(load) ==
        "backend: LGBM_BoosterLoadModelFromString: Model file doesn't specify the number of classes; name a model");
}

TEST_CASE("what was thrown within a call comes out behind it, once") {
  detail::lightgbm_thrown() = std::make_exception_ptr(std::runtime_error{"as planned"});
  CHECK_THROWS_WITH_AS(detail::lightgbm_call(-1, "LGBM_BoosterUpdateOneIter"), "as planned", std::runtime_error);
  CHECK_THROWS_AS(detail::lightgbm_call(-1, "LGBM_BoosterUpdateOneIter"), Error);
}

TEST_CASE("warnings of parameters that change nothing are told from others") {
  CHECK(is_unused_parameter("Unknown parameter: max_dpeth"));
  CHECK(is_unused_parameter("eta is set=1, learning_rate=2 will be ignored. Current value: eta=1"));
  CHECK_FALSE(is_unused_parameter("No further splits with positive gain, best gain: -inf"));
}
