// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

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
