// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/backend/torch/detail/device_copies.hpp>
#include <raytrain/backend/torch/detail/step_timer.hpp>
#include <raytrain/backend/torch/torch_shard.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/batch.hpp>
#include <raytrain/data/batch_range.hpp>
#include <raytrain/data/column.hpp>
#include <raytrain/data/dataset_shard.hpp>

namespace raytrain::detail {

RAYTRAIN_TORCH_INLINE auto torch_type(Column const& column) -> at::ScalarType {
  switch (column.type()) {
    case ElementType::float32: return at::ScalarType::Float;
    case ElementType::float64: return at::ScalarType::Double;
    case ElementType::int8: return at::ScalarType::Char;
    case ElementType::int16: return at::ScalarType::Short;
    case ElementType::int32: return at::ScalarType::Int;
    case ElementType::int64: return at::ScalarType::Long;
    case ElementType::uint8: return at::ScalarType::Byte;
    case ElementType::float16: return at::ScalarType::Half;
    case ElementType::bfloat16: return at::ScalarType::BFloat16;
    case ElementType::uint16:
    case ElementType::uint32:
    case ElementType::uint64: break;
  }
  throw Error{Errc::invalid_data, "a tensor of column " + column.describe(), "LibTorch has no tensors of that type",
              "store it in the next larger signed type"};
}

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_TORCH_INLINE auto TorchBatch::operator[](std::string_view column) const -> torch::Tensor {
  detail::InPhase const gets_data{timer_, detail::StepTimer::Phase::data};
  auto const& source = find_column(rows_.columns(), column);
  std::vector<std::int64_t> shape{size()};
  for (auto const extent : source.row_shape()) shape.push_back(static_cast<std::int64_t>(extent));
  auto const options = copies_ != nullptr ? copies_->cpu_options() : at::TensorOptions{};
  auto tensor = torch::empty(shape, options.dtype(detail::torch_type(source)));
  rows_.gather(source, std::span{static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()});
  return copies_ != nullptr ? copies_->to_device(tensor) : tensor;
}

RAYTRAIN_TORCH_INLINE auto TorchBatchRange::Iterator::operator*() const -> TorchBatch {
  auto batch = *at_;  // which moves the shard's position
  tell_of(batch);
  return TorchBatch{std::move(batch), timer_, copies_};
}

RAYTRAIN_TORCH_INLINE void TorchBatchRange::Iterator::hand_out(raytrain::Batch const& batch) const {
  at_.hand_out(batch);
  tell_of(batch);
}

RAYTRAIN_TORCH_INLINE void TorchBatchRange::Iterator::tell_of(raytrain::Batch const& batch) const {
  if (listener_ != nullptr && !std::exchange(is_told_, true)) listener_->on_batch(batch);
  if (timer_ != nullptr) timer_->hand_out(batch.is_padding() ? 0 : batch.size());
}

RAYTRAIN_TORCH_INLINE auto TorchBatchRange::Iterator::operator++() -> Iterator& {
  if (timer_ != nullptr) timer_->ask();
  ++at_;
  is_told_ = false;
  return *this;
}

RAYTRAIN_TORCH_INLINE auto TorchBatchRange::Iterator::is_at_end() const -> bool {
  if (at_ != std::default_sentinel) return false;
  if (timer_ != nullptr) timer_->end_batches();
  if (listener_ != nullptr && !std::exchange(is_told_, true)) listener_->on_end();
  return true;
}

RAYTRAIN_TORCH_INLINE auto TorchShard::batches(BatchOptions const& options) -> TorchBatchRange {
  detail::InPhase const gets_data{setup_.timer.get(), detail::StepTimer::Phase::data};
  auto of_range = setup_;
  if (auto const& listener = setup_.listener) {
    of_range.listener = {listener.get(), [keep = listener](auto* told) { told->on_left(); }};
  }
  return TorchBatchRange{shard_.batches(options), std::move(of_range)};
}

}  // namespace raytrain
