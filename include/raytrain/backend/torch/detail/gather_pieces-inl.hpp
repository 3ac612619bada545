// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/backend/torch/detail/device_arrays.hpp>
#include <raytrain/backend/torch/detail/flat_parameters.hpp>
#include <raytrain/backend/torch/detail/gather_pieces.hpp>
#include <raytrain/backend/torch/detail/optimizer_slice.hpp>
#include <raytrain/backend/torch/detail/stored_optimizer.hpp>
#include <raytrain/backend/torch/detail/tensor_over.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/object_exchange.hpp>

namespace raytrain::detail {

/// What a rank has of a parameter's state, as it is told to the others. The bytes of its tensors follow each other.
struct PieceDescription {
  struct Member {
    std::string name;
    std::string value;      ///< Empty for a tensor.
    std::int32_t type = 0;  ///< Of a tensor's elements.
    template <class A>
    void serialize(A& a) {
      a(name, value, type);
    }
  };

  std::uint64_t parameter = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::vector<Member> members;
  template <class A>
  void serialize(A& a) {
    a(parameter, begin, end, members);
  }
};

/// The tensor's memory, {bytes}. It has no holes, and outlives the result.
RAYTRAIN_TORCH_INLINE auto bytes_over(at::Tensor const& tensor) -> at::Tensor {
  return tensor_over(tensor.data_ptr(), {static_cast<std::int64_t>(tensor.nbytes())}, at::kByte, tensor.device());
}

/// Brings the ranks' pieces to rank 0.
class PieceGathering {
 public:
  PieceGathering(OptimizerSlice const& slice, Collective& collective)
      : flat_{slice.parameters()}, collective_{collective} {
    auto const states = slice.states();
    std::vector<PieceDescription> own;
    for (std::size_t i = 0; i < states.size(); ++i) {
      auto const& [index, begin, end] = flat_.pieces()[i];
      auto const first = flat_.parameters()[index].begin;
      own.push_back({index, begin - first, end - first, {}});
      for (auto const& [name, value] : states[i].values) own.back().members.push_back({name, value, 0});
      for (auto const& [name, tensor] : states[i].tensors) {
        own.back().members.push_back({name, "", static_cast<std::int32_t>(tensor.scalar_type())});
        own_.push_back(tensor);
      }
    }
    all_ = all_gather_objects(collective_, own);
    for (auto const& pieces : all_) {
      std::int64_t bytes = 0;
      for_each_tensor(pieces, [&](auto const&, auto const&, std::int64_t size_bytes) { bytes += size_bytes; });
      most_bytes_ = std::max(most_bytes_, bytes);
    }
  }

  /// On any rank.
  [[nodiscard]] auto has_tensors() const noexcept -> bool { return most_bytes_ > 0; }

  void gather_through_memory() {
    make_whole(at::kCPU);
    auto const part = at::empty({most_bytes_}, at::kByte);
    pack(part);
    auto const ranks = is_on_rank_0() ? static_cast<std::int64_t>(all_.size()) : 0;
    auto const parts = at::empty({ranks * most_bytes_}, at::kByte);
    collective_.gather(span_over(part), span_over(parts), Rank{0});
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      unpack(static_cast<std::size_t>(rank), parts.narrow(0, rank * most_bytes_, most_bytes_));
    }
  }

  /// False on all ranks where one has no room: then nothing has happened.
  [[nodiscard]] auto gather_on_device(DeviceArrays& arrays) -> bool {
    at::Tensor part;
    std::vector<std::uint8_t> has_room{1};
    try {
      make_whole(arrays.device());
      part = at::empty({most_bytes_}, at::TensorOptions{at::kByte}.device(arrays.device()));
    } catch (c10::Error const&) {
      has_room[0] = 0;
    }
    collective_.all_reduce(has_room, ReduceOp::min);
    if (has_room[0] == 0) return false;
    if (is_on_rank_0()) {
      pack(part);
      unpack(0, part);
    }
    for (std::uint32_t rank = 1; rank < all_.size(); ++rank) {
      if (collective_.rank() == Rank{rank}) pack(part);
      arrays.broadcast(span_over(part), Rank{rank});
      if (is_on_rank_0()) unpack(rank, part);
    }
    return true;
  }

  /// On rank 0.
  [[nodiscard]] auto state() const -> OptimizerState {
    OptimizerState state;
    std::set<std::string> added;
    for (auto const& pieces : all_) {
      for (auto const& piece : pieces) {
        auto const& parameter = flat_.parameters()[piece.parameter];
        for (auto const& member : piece.members) {
          auto name = fmt::format("{}.{}", parameter.number, member.name);
          if (!member.value.empty()) {
            state.values[std::move(name)] = member.value;
          } else if (added.insert(name).second) {
            auto const& tensor = whole_.at({parameter.number, member.name});
            state.tensors.push_back(
                {std::move(name), tensor.as_strided(parameter.view.sizes(), parameter.view.strides())});
          }
        }
      }
    }
    return state;
  }

 private:
  [[nodiscard]] auto is_on_rank_0() const -> bool { return collective_.rank() == Rank{0}; }

  [[nodiscard]] static auto span_over(at::Tensor const& bytes) -> std::span<std::uint8_t> {
    return {static_cast<std::uint8_t*>(bytes.data_ptr()), bytes.nbytes()};
  }

  /// Calls `action` with the piece, the member and how many bytes that has.
  template <class Action>
  static void for_each_tensor(std::vector<PieceDescription> const& pieces, Action const& action) {
    for (auto const& piece : pieces) {
      for (auto const& member : piece.members) {
        if (!member.value.empty()) continue;
        auto const element_bytes =
            static_cast<std::int64_t>(c10::elementSize(static_cast<at::ScalarType>(member.type)));
        action(piece, member, (piece.end - piece.begin) * element_bytes);
      }
    }
  }

  /// Memory for the whole tensors.
  void make_whole(at::Device device) {
    whole_.clear();
    if (!is_on_rank_0()) return;
    for (auto const& pieces : all_) {
      for_each_tensor(pieces, [&](PieceDescription const& piece, PieceDescription::Member const& member, auto) {
        auto const& parameter = flat_.parameters()[piece.parameter];
        auto& tensor = whole_[{parameter.number, member.name}];
        if (tensor.defined()) return;
        auto const options = torch::TensorOptions{}.dtype(static_cast<at::ScalarType>(member.type)).device(device);
        tensor = torch::empty({parameter.tensor.numel()}, options);
      });
    }
  }

  /// Copied as bytes: a tensor may begin at an offset that is not aligned for its elements.
  void pack(at::Tensor const& part) const {
    std::int64_t offset = 0;
    for (auto const& tensor : own_) {
      auto const there = tensor.to(part.device());
      auto const bytes = bytes_over(there);
      part.narrow(0, offset, bytes.numel()).copy_(bytes);
      offset += bytes.numel();
    }
  }

  void unpack(std::size_t rank, at::Tensor const& part) const {
    std::int64_t offset = 0;
    for_each_tensor(all_[rank], [&](PieceDescription const& piece, PieceDescription::Member const& member,
                                    std::int64_t size_bytes) {
      auto const& whole = whole_.at({flat_.parameters()[piece.parameter].number, member.name});
      auto const target = whole.slice(0, piece.begin, piece.end);
      bytes_over(target).copy_(part.narrow(0, offset, size_bytes));
      offset += size_bytes;
    });
  }

  FlatParameters const& flat_;
  Collective& collective_;
  std::vector<at::Tensor> own_;                                        ///< In the order in which they are described.
  std::vector<std::vector<PieceDescription>> all_;                     ///< By rank.
  std::int64_t most_bytes_ = 0;                                        ///< Of a rank's tensors.
  std::map<std::pair<std::size_t, std::string>, at::Tensor> whole_{};  ///< By number and name, in the order of memory.
};

RAYTRAIN_TORCH_INLINE auto gather_pieces(OptimizerSlice const& slice, Collective& collective, DeviceArrays* on_device)
    -> std::optional<OptimizerState> {
  torch::NoGradGuard const no_grad;
  PieceGathering gathering{slice, collective};
  auto const may_stay = on_device != nullptr && on_device->broadcasts_on_device();
  if (gathering.has_tensors() && !(may_stay && gathering.gather_on_device(*on_device))) {
    gathering.gather_through_memory();
  }
  if (collective.rank() != Rank{0}) return std::nullopt;
  return gathering.state();
}

}  // namespace raytrain::detail
