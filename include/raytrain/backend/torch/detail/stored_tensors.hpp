// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <torch/torch.h>

#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/checkpoint/safetensors.hpp>
#include <raytrain/core/bytes.hpp>

/// What an archive of LibTorch holds before it is bytes: tensors as they lie in memory, uncopied, and values by name.
/// LibTorch gives it to nobody.
namespace raytrain::detail {

auto module_in(torch::serialize::OutputArchive& archive) -> torch::jit::Module&;
auto module_in(torch::serialize::InputArchive& archive) -> torch::jit::Module&;

/// Where an explicit instantiation names a member, it may be a private one.
///
/// Source: [temp.spec.general] of the C++ standard.
template <class Archive, auto Member>
struct ArchiveModule {
  friend auto module_in(Archive& archive) -> torch::jit::Module& { return archive.*Member; }
};
template struct ArchiveModule<torch::serialize::OutputArchive, &torch::serialize::OutputArchive::module_>;
template struct ArchiveModule<torch::serialize::InputArchive, &torch::serialize::InputArchive::module_>;

}  // namespace raytrain::detail

/// Tensors of LibTorch in a file of safetensors' format.
namespace raytrain::detail {

inline constexpr auto state_remedy = "build it as it was when it was saved, or start a new run";

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// Shape and type, as messages have them: "{16, 64} Float".
[[nodiscard]] auto shape_text(at::IntArrayRef sizes, at::ScalarType type) -> std::string;
[[nodiscard]] auto shape_text(StoredTensor const& stored) -> std::string;

/// Whether a file can hold it and give it back to where it lies: dense, of a type that the format has, and no two of
/// its elements at one place.
[[nodiscard]] auto is_storable(at::Tensor const& tensor) -> bool;

/// A tensor of that shape and type, its content undefined; none for what LibTorch does not have.
[[nodiscard]] auto empty_like(StoredTensor const& stored, at::Device device = at::kCPU) -> std::optional<at::Tensor>;

/// The tensor where it lies in the file, as long as that is there, and only to be read; none as for `empty_like`.
[[nodiscard]] auto tensor_in(BytesView file, StoredTensor const& stored) -> std::optional<at::Tensor>;

/// The tensors that `save` of a module has stored in an archive, by their names there; none if that is more than
/// parameters and buffers that a file can hold.
[[nodiscard]] auto state_tensors(torch::nn::Module const& module, torch::serialize::OutputArchive& archive)
    -> std::optional<std::vector<NamedTensor>>;

/// Adds a file of tensors, each of which `is_storable`, to a draft. They may be changed as soon as this returns, on a
/// device by what is put on the same stream, or on one that waits for it.
///
/// Errors: `invalid_report` for names that a file cannot have.
/// Cost:   each is copied once, by as many threads as the calling thread's tensor operations have. Inside `report`
///         those of a device are copied there, and by the device to pinned memory while the program goes on; without
///         room for that, and elsewhere, this waits for the device.
void add_tensors(CheckpointDraft& draft, std::string file, std::vector<NamedTensor> const& tensors,
                 TensorMetadata metadata);

/// Copies tensors of a file that `index` tells to where the tensors of those names lie, which have the same shapes and
/// types.
void copy_stored(BytesView file, TensorIndex const& index, std::vector<NamedTensor> const& tensors);

/// Copies what a file holds to where the tensors of its names lie, or to new memory where that is not LibTorch's own
/// and may be read-only. `attempted` begins the message of an error.
///
/// Errors: `corrupt_checkpoint` for bytes that are no such file; `backend` for other names, shapes or types, and for
///         different tensors where there is one by two names, which are listed, before anything is copied.
void fill_tensors(BytesView file, std::vector<NamedTensor> const& tensors, std::string_view attempted);

/// The same for the tensors of the file that `index` tells, by the names there.
void fill_tensors(BytesView file, TensorIndex const& index, std::vector<NamedTensor> const& tensors,
                  std::string_view attempted, std::string remedy);

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/stored_tensors-inl.hpp>
#endif
