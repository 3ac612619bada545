// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <xgboost/c_api.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include <raytrain/backend/boosting/detail/booster_gpu.hpp>
#include <raytrain/backend/xgboost/detail/xgboost_library.hpp>
#include <raytrain/backend/xgboost/xgboost_params.hpp>
#include <raytrain/config/scaling_config.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/launch/gpu_driver.hpp>
#include <raytrain/message/json.hpp>

namespace raytrain::detail {

/// The XGBoost that this program runs with.
struct XGBoostBuild {
  int major = 0;
  int minor = 0;
  bool has_cuda = false;
  int cuda = 0;  ///< As 12080; 0: not known.

  /// `info`: the text of XGBuildInfo, as {"CUDA_VERSION":[12,8],"USE_CUDA":true}.
  ///
  /// Errors: `invalid_data` for a text that is no JSON.
  [[nodiscard]] static auto of(int major, int minor, std::string_view info) -> XGBoostBuild {
    XGBoostBuild build{major, minor};
    auto const json = parse_json(info, "XGBuildInfo");
    auto const* const fields = json.get_if<JsonObject>();
    if (fields == nullptr) return build;
    for (auto const& [name, value] : *fields) {
      if (auto const* const is = value.get_if<bool>(); is != nullptr && name == "USE_CUDA") build.has_cuda = *is;
      auto const* const version = value.get_if<JsonArray>();
      if (version == nullptr || version->size() < 2 || name != "CUDA_VERSION") continue;
      auto const* const of_major = version->front().get_if<std::int64_t>();
      auto const* const of_minor = (*version)[1].get_if<std::int64_t>();
      if (of_major != nullptr && of_minor != nullptr) build.cuda = static_cast<int>(*of_major * 1000 + *of_minor * 10);
    }
    return build;
  }

  [[nodiscard]] static auto here() -> XGBoostBuild {
    int major = 0;
    int minor = 0;
    int patch = 0;
    XGBoostVersion(&major, &minor, &patch);
    char const* info = nullptr;
    xgboost_call(XGBuildInfo(&info), "XGBuildInfo");
    return of(major, minor, info);
  }

  [[nodiscard]] auto name() const -> std::string { return fmt::format("XGBoost {}.{}", major, minor); }

  /// Before any worker starts. The library is asked first: without CUDA no driver would help.
  ///
  /// Errors: `invalid_config` for an XGBoost without CUDA; as `check_booster_gpus`.
  void check_gpus(ScalingConfig const& scaling) const {
    if (!has_cuda) {
      refuse_use_gpu({name() + " is built without CUDA",
                      "link one that is built with -DUSE_CUDA=ON, as that of Python's package xgboost"});
    }
    check_booster_gpus(scaling, {name(), cuda});
  }

  /// What it is told, besides all else, to train on a GPU.
  ///
  /// Errors: `invalid_config` for parameters by which it would train elsewhere.
  [[nodiscard]] auto gpu_parameters(XGBoostParams const& params, int gpu) const -> std::map<std::string, std::string> {
    auto const refuse = [](std::string_view field, std::string_view name, std::string_view value, std::string remedy) {
      throw Error{Errc::invalid_config, fmt::format("XGBoostParams::{}", field),
                  fmt::format("'{}' is '{}', and ScalingConfig::use_gpu is set", name, value), std::move(remedy)};
    };
    auto const named = [&](char const* name) -> std::string_view {
      auto const found = params.params.find(name);
      return found == params.params.end() ? std::string_view{} : found->second;
    };
    auto const device = named("device");
    if (!device.empty() && device != "cuda" && device != "gpu") {
      refuse("params", "device", device, "leave it out: each worker trains on its own GPU");
    }
    auto const ordinal = named("gpu_id");
    if (!ordinal.empty()) refuse("params", "gpu_id", ordinal, "leave it out: each worker trains on its own GPU");
    if (named("booster") == "gblinear") refuse("params", "booster", "gblinear", "grow trees, or leave use_gpu out");
    auto const& method = params.tree_method;
    if (major >= 2) {
      if (method == "exact") refuse("tree_method", "tree_method", method, "write hist or approx");
      return {{"device", fmt::format("cuda:{}", gpu)}};
    }
    if (method != "hist" && method != "gpu_hist" && method != "auto") {
      refuse("tree_method", "tree_method", method, fmt::format("write hist, which {} has on GPUs", name()));
    }
    return {{"tree_method", "gpu_hist"}, {"gpu_id", fmt::format("{}", gpu)}};
  }

  /// Where XGBoost does not find that GPU it warns, and trains on the CPU or another GPU. `configuration`: a booster's.
  ///
  /// Errors: `backend` where it does.
  void check_trains_on(int gpu, std::string_view configuration) const {
    auto const wanted = major >= 2 ? fmt::format("cuda:{}", gpu) : fmt::format("{}", gpu);
    auto const* const field = major >= 2 ? "device" : "gpu_id";
    auto const found = configured_text(configuration, {.object = "generic_param", .name = field});
    if (found == wanted) return;
    throw Error{Errc::backend, fmt::format("training on GPU {}", gpu),
                fmt::format("{} would train by {} = {}", name(), field, found),
                "see its warnings, and whether nvidia-smi lists the GPU"};
  }
};

}  // namespace raytrain::detail
