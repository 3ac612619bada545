// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include <raytrain/backend/lightgbm/lightgbm_booster.hpp>
#include <raytrain/backend/lightgbm/lightgbm_dataset.hpp>
#include <raytrain/backend/lightgbm/lightgbm_params.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/launch/gpu_driver.hpp>

namespace raytrain::detail {

/// What LightGBM is told, besides all else, to train on a GPU: by CUDA, or by OpenCL where the parameters say "gpu".
///
/// Errors: `invalid_config` for parameters by which it would train elsewhere, and for several workers by CUDA.
[[nodiscard]] inline auto lightgbm_gpu_parameters(LightGBMParams const& params, int gpu, WorldSize workers)
    -> std::map<std::string, std::string> {
  auto const refuse = [](std::string const& name, std::string const& value) {
    throw Error{Errc::invalid_config, "LightGBMParams::params",
                fmt::format("'{}' is '{}', and ScalingConfig::use_gpu is set", name, value),
                "leave it out: each worker trains on its own GPU"};
  };
  std::map<std::string, std::string> told{{"gpu_device_id", fmt::format("{}", gpu)}};
  if (auto const own = params.params.find("gpu_device_id"); own != params.params.end()) refuse(own->first, own->second);
  std::string type = "cuda";
  for (auto const* const name : {"device", "device_type"}) {  // of two names LightGBM takes the last one
    auto const found = params.params.find(name);
    if (found == params.params.end()) continue;
    type = found->second;
    if (type != "cuda" && type != "gpu") refuse(name, type);
  }
  told["device_type"] = type;
  if (type == "gpu" || workers == WorldSize{1}) return told;
  throw Error{Errc::invalid_config, "ScalingConfig::use_gpu",
              fmt::format("is set for {} workers, and LightGBM trains by CUDA in one alone", workers.value),
              "use one worker; or write {\"device_type\", \"gpu\"} into LightGBMParams::params for OpenCL"};
}

/// Looks whether LightGBM can train so, by a booster of a few rows.
///
/// Errors: `invalid_config` where it cannot, with its text.
inline void check_lightgbm_gpu(std::map<std::string, std::string> told) {
  std::vector<float> values;
  for (int row = 0; row < 100; ++row) values.push_back(static_cast<float>(row));
  auto const is_cuda = told.at("device_type") == "cuda";
  told.insert({{"objective", "regression"}, {"verbosity", "-1"}});
  try {
    LightGBMDataset const rows{Dataset::from_columns({{"x", values}, {"label", values}}),
                               {.label = "label", .params = told}};
    LightGBMBooster const booster{rows, told};
  } catch (Error const& error) {
    if (error.code() != Errc::backend) throw;
    refuse_use_gpu({"LightGBM cannot train on GPU " + told.at("gpu_device_id") + ": " + error.happened(),
                    fmt::format("link one that is built with {}",
                                is_cuda ? "-DUSE_CUDA=1" : "-DUSE_GPU=1, and install OpenCL for the GPU")});
  }
}

}  // namespace raytrain::detail
