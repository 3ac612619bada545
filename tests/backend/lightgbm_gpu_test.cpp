// SPDX-License-Identifier: Apache-2.0
// With a pretended driver, and a LightGBM without CUDA.
#include <raytrain/backend/lightgbm.hpp>

#include <map>
#include <mutex>
#include <string>

#include <doctest/doctest.h>

#include "../support/pretended_driver.hpp"
#include "../support/temporary_folder.hpp"
#include "../support/thrown_error.hpp"
#include "boosting_gpu.hpp"
#include "lightgbm_runs.hpp"

namespace {

using namespace raytrain;
using namespace raytrain::testing;

TEST_CASE_TEMPLATE_INVOKE(boosting_gpu, LightGBMBackend);

auto on_gpus(TemporaryFolder const& folder, int workers) -> TrainerConfig<LightGBMBackend> {
  auto with = config(folder, workers, LightGBMMode::distributed);
  with.scaling.use_gpu = true;
  return with;
}

TEST_CASE("a LightGBM without CUDA is refused before it takes rows, with its text") {
  PretendedDriver const driver{1};
  TemporaryFolder const folder;
  auto const with = on_gpus(folder, 1);
  auto const text = refused(parameters(), with);
  check_contains(text,
                 "ScalingConfig::use_gpu: is set, and LightGBM cannot train on GPU 0: CUDA Tree Learner was not "
                 "enabled in this build");
  check_contains(text, "; link one that is built with -DUSE_CUDA=1; or leave use_gpu out to train on the CPU");
  auto by_opencl = parameters();
  by_opencl.params = {{"device", "gpu"}};
  check_contains(refused(by_opencl, with), "LightGBM cannot train on GPU 0: ");
  check_contains(refused(by_opencl, with), "; link one that is built with -DUSE_GPU=1, and install OpenCL");
  auto without_rows = with;
  without_rows.datasets.clear();
  check_contains(refused(parameters(), without_rows), "CUDA Tree Learner was not enabled");
}

TEST_CASE("several workers are refused, since LightGBM trains by CUDA in one") {
  PretendedDriver const driver{2};
  TemporaryFolder const folder;
  check_contains(refused(parameters(), on_gpus(folder, 2)),
                 "ScalingConfig::use_gpu: is set for 2 workers, and LightGBM trains by CUDA in one alone; use one "
                 "worker; or write {\"device_type\", \"gpu\"} into LightGBMParams::params for OpenCL");
}

TEST_CASE("each worker is told its own GPU, and none without use_gpu") {
  PretendedDriver const driver{2};
  for (bool const use_gpu : {true, false}) {
    TemporaryFolder const folder;
    std::mutex mutex;
    std::map<unsigned, int> gpus;
    auto with = on_gpus(folder, 2);
    with.scaling.use_gpu = use_gpu;
    LightGBMTrainer{[&](LightGBMContext& ctx) {
                      std::lock_guard const lock{mutex};
                      gpus[ctx.world_rank().value] = ctx.gpu().value_or(-1);
                    },
                    with}
        .fit();
    CHECK(gpus == (use_gpu ? std::map<unsigned, int>{{0, 0}, {1, 1}} : std::map<unsigned, int>{{0, -1}, {1, -1}}));
  }
}

TEST_CASE("a GPU of another name than was asked for is refused, with its name") {
  PretendedDriver const driver{1};
  TemporaryFolder const folder;
  auto with = on_gpus(folder, 1);
  with.scaling.accelerator_type = "H100";
  check_contains(refused(parameters(), with),
                 "ScalingConfig::accelerator_type: is 'H100', and cuda:0 of rank 0 is 'Fake GPU'");
}

TEST_CASE("LightGBM is told the GPU's number, and to use CUDA unless the parameters say OpenCL") {
  using Texts = std::map<std::string, std::string>;
  using raytrain::detail::lightgbm_gpu_parameters;
  auto const told = [](Texts const& params, unsigned workers = 1) {
    return lightgbm_gpu_parameters({.params = params}, 3, WorldSize{workers});
  };
  Texts const by_cuda{{"device_type", "cuda"}, {"gpu_device_id", "3"}};
  Texts const by_opencl{{"device_type", "gpu"}, {"gpu_device_id", "3"}};
  CHECK(told({}) == by_cuda);
  CHECK(told({{"device_type", "cuda"}}) == by_cuda);
  CHECK(told({{"device", "gpu"}}) == by_opencl);
  CHECK(told({{"device_type", "gpu"}}, 2) == by_opencl);
  for (auto const& [name, value] : Texts{{"device", "cpu"}, {"device_type", "cpu"}, {"gpu_device_id", "1"}}) {
    check_contains(thrown_error([&] {
                     (void)told({{name, value}});
                   }),
                   "LightGBMParams::params: '" + name + "' is '" + value +
                       "', and ScalingConfig::use_gpu is set; leave it out: each worker trains on its own GPU");
  }
}

}  // namespace
