// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/backend/torch/detail/stored_tensors.hpp>
#include <raytrain/backend/torch/detail/torch_call.hpp>
#include <raytrain/backend/torch/torch_predictor.hpp>
#include <raytrain/backend/torch/torch_shard.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/preprocess/any_preprocessor.hpp>

namespace raytrain::detail {

RAYTRAIN_TORCH_INLINE void check_options(TorchPredictorOptions const& options) {
  if (options.batch_size >= 1) return;
  throw Error{Errc::invalid_config, "TorchPredictorOptions::batch_size",
              fmt::format("must be at least 1 (got {})", options.batch_size), "write {.batch_size = 1024}"};
}

RAYTRAIN_TORCH_INLINE auto move_to(torch::nn::Module& module, std::optional<torch::Device> device) -> torch::Device {
  auto tensors = module.parameters();
  for (auto const& buffer : module.buffers()) tensors.push_back(buffer);
  if (!device) return tensors.empty() ? torch::Device{torch::kCPU} : tensors.front().device();
  if (std::ranges::all_of(tensors, [&](at::Tensor const& tensor) { return tensor.device() == *device; }))
    return *device;
  try {
    module.to(*device);
    return *device;
  } catch (c10::Error const& error) {
    throw Error{Errc::invalid_config, "TorchPredictorOptions::device",
                fmt::format("the model cannot be moved to {}: {}", device->str(), error.what_without_backtrace()),
                "write {.device = torch::kCPU}, or take a LibTorch and a machine that have that device"};
  }
}

RAYTRAIN_TORCH_INLINE auto predict_rows(at::Tensor const& rows, TorchPredictorOptions const& options,
                                        std::function<at::Tensor(at::Tensor const&)> const& forward) -> at::Tensor {
  std::string attempted{"predicting rows"};
  if (!rows.defined() || rows.dim() == 0 || rows.size(0) == 0) {
    auto const got = rows.defined() ? shape_text(rows.sizes(), rows.scalar_type()) : "an undefined tensor";
    throw Error{Errc::invalid_data, attempted, "there are none in " + got, "give a tensor of {rows, ...}"};
  }
  attempted = "predicting " + shape_text(rows.sizes(), rows.scalar_type());
  auto const refuse = [&](std::string happened) {
    throw Error{Errc::backend, attempted, std::move(happened), "let forward give a row for each row, all of one shape"};
  };
  torch::NoGradGuard const no_grad;
  return torch_call(
      attempted,
      [&] {
        auto const count = rows.size(0);
        at::Tensor all;
        for (std::int64_t begin = 0; begin < count; begin += options.batch_size) {
          auto const size = std::min(options.batch_size, count - begin);
          auto given = forward(rows.narrow(0, begin, size).to(*options.device));
          if (!given.defined() || given.dim() == 0 || given.size(0) != size) {
            refuse(fmt::format("the model gives {} for {} rows",
                               given.defined() ? shape_text(given.sizes(), given.scalar_type()) : "nothing", size));
          }
          given = given.to(rows.device());
          if (size == count) return given;
          auto sizes = given.sizes().vec();
          sizes[0] = count;
          if (!all.defined()) all = at::empty(sizes, given.options());
          if (all.sizes() != sizes || all.scalar_type() != given.scalar_type()) {
            refuse(fmt::format("the model gives {} after {}", shape_text(given.sizes(), given.scalar_type()),
                               shape_text(all.narrow(0, 0, begin).sizes(), all.scalar_type())));
          }
          all.narrow(0, begin, size).copy_(given);
        }
        return all;
      },
      "give rows of the shape and type that the model was trained with");
}

RAYTRAIN_TORCH_INLINE auto predict_column(Dataset const& rows, std::string const& column,
                                          TorchPredictorOptions const& options,
                                          std::function<at::Tensor(at::Tensor const&)> const& forward) -> at::Tensor {
  auto const prepared = prepared_by(options.preprocessor, rows);
  auto const& source = prepared.column(column);
  source.check_holds_numbers("predicting rows");
  std::vector<std::int64_t> shape{static_cast<std::int64_t>(source.rows())};
  for (auto const extent : source.row_shape()) shape.push_back(static_cast<std::int64_t>(extent));
  // Nothing writes to it: forward, which may work in place, gets a copy of each batch.
  auto* const values = const_cast<std::byte*>(source.bytes().data());
  auto const given = at::from_blob(values, shape, torch_type(source));
  return predict_rows(given, options, [&](at::Tensor const& batch) {
    return forward(batch.is_alias_of(given) ? batch.clone() : batch);
  });
}

}  // namespace raytrain::detail
