// SPDX-License-Identifier: Apache-2.0
// What LightGBM learns on a GPU, where it is built with CUDA or OpenCL: that of PyPI has no CUDA.
#include <raytrain/backend/lightgbm.hpp>

#include <string>

#include <doctest/doctest.h>

#include <raytrain/core/error.hpp>
#include <raytrain/trainer.hpp>

#include "../backend/lightgbm_runs.hpp"
#include "../support/temporary_folder.hpp"

namespace {

using namespace raytrain;
using namespace raytrain::testing;

auto auc_of_training(std::string const& device) -> double {
  TemporaryFolder const folder;
  auto with = config(folder, 1);
  auto params = parameters();
  with.scaling.use_gpu = device != "cpu";
  if (with.scaling.use_gpu) params.params = {{"device_type", device}};
  return LightGBMTrainer{params, with}.fit().metrics.number("valid-auc").value_or(0);
}

}  // namespace

TEST_CASE("LightGBM learns on a GPU what it learns on the CPU, or says that it is built without what it needs") {
  auto const on_cpu = auc_of_training("cpu");
  CHECK(on_cpu > 0.9);
  for (std::string const device : {"cuda", "gpu"}) {
    CAPTURE(device);
    try {
      auto const on_gpu = auc_of_training(device);
      MESSAGE("LightGBM has trained by device_type = ", device);
      CHECK(on_gpu == doctest::Approx(on_cpu).epsilon(0.01));
    } catch (Error const& error) {
      std::string const text = error.what();
      CHECK(text.find("LightGBM cannot train on GPU 0: ") != std::string::npos);
      MESSAGE(text);
    }
  }
}
