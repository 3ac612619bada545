// SPDX-License-Identifier: Apache-2.0
#include <raytrain/config/data_config.hpp>

#include <string>
#include <vector>

#include <doctest/doctest.h>

// A config that names some of its fields compiles without a warning about the others.
#pragma GCC diagnostic error "-Wmissing-field-initializers"

TEST_CASE("unless told otherwise the dataset train, and no other, is divided among the workers") {
  CHECK(raytrain::DataConfig{}.datasets_to_split == std::vector<std::string>{"train"});
}

TEST_CASE("the datasets to divide can be named") {
  raytrain::DataConfig const config{.datasets_to_split = {"train", "extra"}};
  CHECK(config.datasets_to_split.size() == 2);
}
