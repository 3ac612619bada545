// SPDX-License-Identifier: Apache-2.0
// GPUs for a backend that boosts trees, by a pretended driver, and with a library that has no CUDA. A test program
// names its backend, which does not ask for CUDA before workers start:
//   TEST_CASE_TEMPLATE_INVOKE(boosting_gpu, LightGBMBackend);
#pragma once

#include <string>

#include <doctest/doctest.h>

#include <raytrain/backend/boosting/boosting_context.hpp>
#include <raytrain/trainer.hpp>

#include "../support/pretended_driver.hpp"
#include "../support/temporary_folder.hpp"
#include "../support/thrown_error.hpp"
#include "boosting_samples.hpp"

namespace raytrain::testing {

TEST_CASE_TEMPLATE_DEFINE("a backend that boosts trees, on GPUs", Backend, boosting_gpu) {
  TemporaryFolder const folder;
  typename Backend::Params const params{.label = "target"};
  auto const config = [&](int workers, double gpus, BoostingMode mode = BoostingMode::automatic) {
    auto with = boosting_config<Backend>(folder, workers, mode);
    with.scaling.use_gpu = true;
    with.scaling.resources_per_worker.gpus = gpus;
    return with;
  };
  auto const refused = [&](TrainerConfig<Backend> const& with) {
    return thrown_error([&] { Trainer<Backend>{params, with}.fit(); });
  };

  SUBCASE("refuses a host without one, with the reason, and what to do") {
    PretendedDriver const driver{0};
    check_contains(refused(config(1, 0)),
                   "invalid_config: ScalingConfig::use_gpu: is set, and NVIDIA's driver finds no GPU; see whether");
    driver.hide_all_gpus();
    check_contains(refused(config(1, 0)), "CUDA_VISIBLE_DEVICES is '', which hides all GPUs; unset it");
    check_contains(refused(config(1, 0)), "; or leave use_gpu out to train on the CPU");
  }

  SUBCASE("refuses more workers than there are, with those that there are") {
    PretendedDriver const driver{2};
    CHECK(refused(config(3, 1, BoostingMode::distributed)) ==
          "invalid_config: ScalingConfig::resources_per_worker.gpus: 3 workers of this host ask for 1 GPU each, and "
          "it has 2 (0: Fake GPU, 1: Fake GPU); use 2 workers here");
  }

  SUBCASE("refuses several workers on one") {
    PretendedDriver const driver{2};
    check_contains(refused(config(4, 0.5, BoostingMode::distributed)),
                   "resources_per_worker.gpus: is 0.5, and each of these 4 workers needs a GPU of its "
                   "own; write 1");
  }

  SUBCASE("refuses several for the one booster of all threads, and for a worker") {
    PretendedDriver const driver{4};
    for (auto const& with : {config(2, 0), config(2, 1), config(1, 2), config(4, 0.5)}) {
      check_contains(refused(with), "resources_per_worker.gpus: asks for 2 GPUs for one booster; ");
      check_contains(refused(with), "; use one worker with one GPU; for more of them give each worker a process");
    }
    CHECK(refused(config(4, 0.25)).find("for one booster") == std::string::npos);  // it has one GPU
  }

  SUBCASE("trains on the CPU without asking the driver where it is not told to use one") {
    PretendedDriver const driver{2};
    auto with = config(2, 0);
    with.scaling.use_gpu = false;
    CHECK(Trainer<Backend>{params, with}.fit().state == RunState::finished);
    CHECK_FALSE(driver.was_started());
    (void)refused(config(3, 1, BoostingMode::distributed));
    CHECK(driver.was_started());
  }
}

}  // namespace raytrain::testing
