// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/MemoryOverlap.h>
#include <torch/torch.h>

#include <raytrain/backend/torch/detail/device_snapshot.hpp>
#include <raytrain/backend/torch/detail/stored_tensors.hpp>
#include <raytrain/backend/torch/detail/torch_call.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/checkpoint/safetensors.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/core/parallel_copy.hpp>
#include <raytrain/core/signs_of_life.hpp>

namespace raytrain::detail {

struct StoredType {
  at::ScalarType type;
  std::string_view name;  ///< As safetensors calls it.
};

inline constexpr std::array<StoredType, 10> stored_types{{{at::kBool, "BOOL"},
                                                          {at::kByte, "U8"},
                                                          {at::kChar, "I8"},
                                                          {at::kShort, "I16"},
                                                          {at::kHalf, "F16"},
                                                          {at::kBFloat16, "BF16"},
                                                          {at::kInt, "I32"},
                                                          {at::kFloat, "F32"},
                                                          {at::kDouble, "F64"},
                                                          {at::kLong, "I64"}}};

RAYTRAIN_TORCH_INLINE auto shape_text(at::IntArrayRef sizes, at::ScalarType type) -> std::string {
  return fmt::format("{{{}}} {}", fmt::join(sizes, ", "), c10::toString(type));
}

RAYTRAIN_TORCH_INLINE auto is_storable(at::Tensor const& tensor) -> bool {
  return tensor.defined() && tensor.layout() == at::kStrided && !tensor.is_quantized() && tensor.has_storage() &&
         at::has_internal_overlap(tensor) != at::MemOverlap::Yes &&
         std::ranges::find(stored_types, tensor.scalar_type(), &StoredType::type) != stored_types.end();
}

RAYTRAIN_TORCH_INLINE auto shape_text(StoredTensor const& stored) -> std::string {
  constexpr std::size_t most = 64;  // as many as LibTorch's tensors can have
  if (stored.shape.size() > most) return fmt::format("of {} dimensions", stored.shape.size());
  auto const* const known = std::ranges::find(stored_types, stored.type, &StoredType::name);
  return fmt::format("{{{}}} {}", fmt::join(stored.shape, ", "),
                     known == stored_types.end() ? stored.type : c10::toString(known->type));
}

/// Sizes and element type, for LibTorch; none for what it does not have.
RAYTRAIN_TORCH_INLINE auto torch_shape(StoredTensor const& stored)
    -> std::optional<std::pair<std::vector<std::int64_t>, at::TensorOptions>> {
  auto const* const known = std::ranges::find(stored_types, stored.type, &StoredType::name);
  if (known == stored_types.end()) return std::nullopt;
  std::vector<std::int64_t> sizes;
  for (auto const extent : stored.shape) {
    if (extent > std::numeric_limits<std::int64_t>::max()) return std::nullopt;
    sizes.push_back(static_cast<std::int64_t>(extent));
  }
  return std::pair{std::move(sizes), at::TensorOptions{}.dtype(known->type)};
}

RAYTRAIN_TORCH_INLINE auto empty_like(StoredTensor const& stored, at::Device device) -> std::optional<at::Tensor> {
  auto const shape = torch_shape(stored);
  if (!shape) return std::nullopt;
  return at::empty(shape->first, shape->second.device(device));
}

RAYTRAIN_TORCH_INLINE auto tensor_in(BytesView file, StoredTensor const& stored) -> std::optional<at::Tensor> {
  auto const shape = torch_shape(stored);
  if (!shape) return std::nullopt;
  return at::from_blob(const_cast<std::byte*>(file.data() + stored.begin_bytes), shape->first, shape->second);
}

RAYTRAIN_TORCH_INLINE auto stored_of(NamedTensor const& named) -> StoredTensor {
  auto const* const type = std::ranges::find(stored_types, named.tensor.scalar_type(), &StoredType::type);
  auto const sizes = named.tensor.sizes();
  return {named.name, std::string{type->name}, {sizes.begin(), sizes.end()}, 0, 0};
}

/// Adds the tensors of an archive and of those in it; false if there is anything else.
RAYTRAIN_TORCH_INLINE auto collect_tensors(c10::ivalue::Object const& object, std::string const& prefix,
                                           std::vector<NamedTensor>& tensors) -> bool {
  auto const type = object.type();
  for (std::size_t i = 0; i < type->numAttributes(); ++i) {
    auto const& value = object.slots().at(i);
    auto name = prefix + type->getAttributeName(i);
    if (value.isObject()) {
      if (!collect_tensors(value.toObjectRef(), name + ".", tensors)) return false;
    } else if (value.isTensor()) {
      tensors.push_back({std::move(name), value.toTensor()});
    } else {
      return false;
    }
  }
  return true;
}

RAYTRAIN_TORCH_INLINE auto state_tensors(torch::nn::Module const& module, torch::serialize::OutputArchive& archive)
    -> std::optional<std::vector<NamedTensor>> {
  std::vector<NamedTensor> stored;
  if (!collect_tensors(*module_in(archive)._ivalue(), {}, stored)) return std::nullopt;
  // A module may have a `save` of its own, whose tensors are none of these, or only look like them.
  auto const parameters = module.named_parameters();
  auto const buffers = module.named_buffers();
  auto const is_own = [](auto const& items, NamedTensor const& named) {
    auto const* const found = items.find(named.name);
    return found != nullptr && found->is_same(named.tensor);
  };
  for (auto const& named : stored) {
    if (!is_storable(named.tensor) || !can_name_tensor(named.name)) return std::nullopt;
    if (!is_own(parameters, named) && !is_own(buffers, named)) return std::nullopt;
  }
  return stored;
}

RAYTRAIN_TORCH_INLINE auto lies_as_stored(at::Tensor const& tensor) -> bool {
  return tensor.device().is_cpu() && tensor.is_contiguous() && !tensor.is_neg();
}

/// Copies all at once, those last that do not lie in memory as in a file.
template <class Piece, class Copy>
void copy_tensors(std::vector<NamedTensor> const& tensors, Piece const& piece, Copy const& copy) {
  torch::NoGradGuard const no_grad;
  std::vector<CopyPiece> pieces;
  for (auto const& named : tensors) {
    if (lies_as_stored(named.tensor)) pieces.push_back(piece(named));
  }
  parallel_copy(pieces, static_cast<std::size_t>(at::get_num_threads()));
  for (auto const& named : tensors) {
    if (!lies_as_stored(named.tensor) && named.tensor.numel() > 0) copy(named);
  }
}

/// A tensor of the shape and type of another one, at a place in memory.
RAYTRAIN_TORCH_INLINE auto tensor_at(std::byte* place, at::Tensor const& like) -> at::Tensor {
  return at::from_blob(place, like.sizes(), at::TensorOptions{}.dtype(like.scalar_type()));
}

RAYTRAIN_TORCH_INLINE auto snapshot_of_devices(std::vector<NamedTensor> const& tensors, TensorIndex const& index)
    -> std::optional<DeviceSnapshot> {
  std::map<std::string_view, at::Tensor const*> on_devices;
  for (auto const& named : tensors) {
    if (!named.tensor.is_cpu() && named.tensor.numel() > 0) on_devices[named.name] = &named.tensor;
  }
  if (on_devices.empty()) return std::nullopt;
  std::vector<DeviceSnapshot::Piece> pieces;
  for (auto const& stored : index.tensors) {
    auto const found = on_devices.find(stored.name);
    if (found != on_devices.end()) pieces.push_back({*found->second, stored.begin_bytes});
  }
  return DeviceSnapshot::take(pieces, index.file_bytes);
}

RAYTRAIN_TORCH_INLINE void add_tensors(CheckpointDraft& draft, std::string file,
                                       std::vector<NamedTensor> const& tensors, TensorMetadata metadata) {
  std::vector<StoredTensor> stored;
  for (auto const& named : tensors) stored.push_back(stored_of(named));
  auto const index = place_tensors(std::move(stored), std::move(metadata));
  SignsOfLife::During const saves{SignsOfLife::Activity::saves};  // however long it takes
  auto snapshot = draft.may_be_incomplete() ? snapshot_of_devices(tensors, index) : std::nullopt;
  auto const memory = snapshot ? std::span{static_cast<std::byte*>(snapshot->file.data_ptr()), index.file_bytes}
                               : draft.allocate(file, index.file_bytes);
  auto const header = tensor_header(index);
  std::ranges::copy(bytes_of(header), memory.begin());
  std::map<std::string_view, std::byte*> places;
  for (auto const& tensor : index.tensors) places[tensor.name] = memory.data() + tensor.begin_bytes;
  copy_tensors(
      tensors,
      [&](NamedTensor const& named) {
        return CopyPiece{places.at(named.name), static_cast<std::byte const*>(named.tensor.data_ptr()),
                         named.tensor.nbytes()};
      },
      [&](NamedTensor const& named) {
        if (!snapshot || named.tensor.is_cpu()) tensor_at(places.at(named.name), named.tensor).copy_(named.tensor);
      });
  if (!snapshot) return;
  auto owner = std::make_shared<at::Tensor>(std::move(snapshot->file));
  draft.add_incomplete(std::move(file), SharedBytes{memory, std::move(owner)}, std::move(snapshot->complete));
}

RAYTRAIN_TORCH_INLINE void copy_stored(BytesView file, TensorIndex const& index,
                                       std::vector<NamedTensor> const& tensors) {
  std::map<std::string_view, std::byte const*> places;
  for (auto const& tensor : index.tensors) places[tensor.name] = file.data() + tensor.begin_bytes;
  copy_tensors(
      tensors,
      [&](NamedTensor const& named) {
        return CopyPiece{static_cast<std::byte*>(named.tensor.data_ptr()), places.at(named.name),
                         named.tensor.nbytes()};
      },
      [&](NamedTensor const& named) {
        named.tensor.copy_(tensor_at(const_cast<std::byte*>(places.at(named.name)), named.tensor));
      });
}

/// Names, shapes and types that are not the same, as a sentence; empty if all are.
RAYTRAIN_TORCH_INLINE auto differences(std::map<std::string_view, StoredTensor const*> stored,
                                       std::vector<NamedTensor> const& tensors) -> std::string {
  constexpr std::size_t most = 8;
  std::vector<std::string> found;
  for (auto const& named : tensors) {
    auto const own = shape_text(named.tensor.sizes(), named.tensor.scalar_type());
    auto const there = stored.extract(named.name);
    if (!there) {
      found.push_back(fmt::format("'{}' {} is not there", named.name, own));
    } else if (auto const other = shape_text(*there.mapped()); other != own) {
      found.push_back(fmt::format("'{}' is {} there and {} in this model", named.name, other, own));
    }
  }
  for (auto const& [name, tensor] : stored) {
    found.push_back(fmt::format("'{}' {} is not in this model", shown_tensor_name(name), shape_text(*tensor)));
  }
  auto const shown = std::min(found.size(), most);
  auto text = fmt::format("{}", fmt::join(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (found.size() > most) text += fmt::format(", and {} more differ", found.size() - most);
  return text;
}

/// Which tensors are one in memory, as the weight that two modules share, and different ones in the file, as a
/// sentence; empty if there are none.
RAYTRAIN_TORCH_INLINE auto differing_shared(BytesView file,
                                            std::map<std::string_view, StoredTensor const*> const& stored,
                                            std::vector<NamedTensor> const& tensors) -> std::string {
  auto const content_of = [&](NamedTensor const& named) {
    auto const& there = *stored.at(named.name);
    return file.subspan(there.begin_bytes, there.size_bytes);
  };
  std::map<void const*, NamedTensor const*> first;
  std::vector<std::string> found;
  for (auto const& named : tensors) {
    if (named.tensor.numel() == 0) continue;
    auto const [place, is_first] = first.emplace(named.tensor.data_ptr(), &named);
    auto const& other = *place->second;
    auto const is_same = other.tensor.sizes() == named.tensor.sizes() &&
                         other.tensor.strides() == named.tensor.strides() &&
                         other.tensor.scalar_type() == named.tensor.scalar_type();
    if (is_first || !is_same || std::ranges::equal(content_of(named), content_of(other))) continue;
    found.push_back(
        fmt::format("'{}' and '{}' are one tensor in this model, and different ones there", other.name, named.name));
  }
  return fmt::format("{}", fmt::join(found, "; "));
}

RAYTRAIN_TORCH_INLINE void fill_tensors(BytesView file, std::vector<NamedTensor> const& tensors,
                                        std::string_view attempted) {
  fill_tensors(file, read_tensor_index(file, attempted), tensors, attempted, state_remedy);
}

RAYTRAIN_TORCH_INLINE void fill_tensors(BytesView file, TensorIndex const& index,
                                        std::vector<NamedTensor> const& tensors, std::string_view attempted,
                                        std::string remedy) {
  std::map<std::string_view, StoredTensor const*> stored;
  for (auto const& tensor : index.tensors) stored[tensor.name] = &tensor;
  if (auto const text = differences(stored, tensors); !text.empty()) {
    throw Error{Errc::backend, std::string{attempted}, text, std::move(remedy)};
  }
  if (auto const text = differing_shared(file, stored, tensors); !text.empty()) {
    throw Error{Errc::backend, std::string{attempted}, text, std::move(remedy)};
  }
  torch_call(attempted, [&] {
    for (auto const& [name, tensor] : tensors) {
      auto const is_of_others = tensor.numel() > 0 && !tensor.storage().resizable();
      if (is_of_others) tensor.set_data(at::empty_like(tensor));
    }
    copy_stored(file, index, tensors);
  });
}

}  // namespace raytrain::detail
