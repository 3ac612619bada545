// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <raytrain/backend/torch/detail/stored_tensors.hpp>
#include <raytrain/backend/torch/torch_checkpoint.hpp>
#include <raytrain/backend/torch/torch_safetensors.hpp>
#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/checkpoint/safetensors.hpp>
#include <raytrain/checkpoint/whole_file.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

constexpr auto model_file = "model.safetensors";

/// Why `add_model` adds nothing.
RAYTRAIN_TORCH_INLINE auto why_not_storable(torch::nn::Module const& module) -> std::string {
  auto state = module.named_parameters();
  state.update(module.named_buffers());
  for (auto const& item : state) {
    auto const& tensor = item.value();
    if (is_storable(tensor) && can_name_tensor(item.key())) continue;
    return fmt::format("such a file cannot hold its tensor '{}', {}", shown_tensor_name(item.key()),
                       shape_text(tensor.sizes(), tensor.scalar_type()));
  }
  return "its save() stores more than parameters and buffers, or others";
}

RAYTRAIN_TORCH_INLINE void save_safetensors(torch::nn::Module const& module, std::filesystem::path const& file) {
  auto const attempted = "saving the model '" + file.string() + "'";
  CheckpointDraft draft;
  if (!add_model(draft, module, "model")) {
    throw Error{Errc::backend, attempted, why_not_storable(module),
                "store it as LibTorch does, by torch::save or state_to_bytes"};
  }
  try {
    replace_whole_file(file, draft.files().at(model_file).view());
  } catch (Error const& error) {
    throw Error{error.code(), attempted, error.attempted() + " " + error.happened(), error.remedy()};
  }
}

/// The file itself, of a folder the model's in it.
RAYTRAIN_TORCH_INLINE auto file_of_model(std::filesystem::path const& path) -> std::filesystem::path {
  std::error_code ignored;
  auto const is_folder = std::filesystem::is_directory(path, ignored);
  auto file = is_folder ? path / model_file : path;
  if (std::filesystem::status(file, ignored).type() != std::filesystem::file_type::not_found) return file;
  auto const has_parts = is_folder && std::filesystem::exists(path / "model.safetensors.index.json", ignored);
  throw Error{Errc::not_found, "loading the model '" + path.string() + "'",
              is_folder ? fmt::format("the folder has no {}", model_file) : "there is no such file",
              has_parts ? "load each of its files, with {.strict = false}"
                        : "name a file that save_safetensors, a training or Python's safetensors has written"};
}

/// Of a committed checkpoint those that were committed.
RAYTRAIN_TORCH_INLINE auto bytes_of_model(std::filesystem::path const& path, std::filesystem::path const& file)
    -> SharedBytes {
  if (file != path) {
    auto const checkpoint = Checkpoint::from_directory(path);
    if (checkpoint.number() != CheckpointNumber{0}) return checkpoint.view(model_file);
  }
  return view_whole_file(file);
}

/// Leaves those of a file whose names begin so, and takes that from them.
RAYTRAIN_TORCH_INLINE void take_prefix(TensorIndex& index, std::string const& prefix, std::string_view attempted) {
  auto const others =
      std::ranges::stable_partition(index.tensors, [&](auto const& tensor) { return tensor.name.starts_with(prefix); });
  if (others.size() == index.tensors.size() && !others.empty()) {
    throw Error{
        Errc::backend, std::string{attempted},
        fmt::format("none of its names begins with '{}', as '{}' does not", prefix, shown_tensor_name(others[0].name)),
        "give the prefix that its names have, or load it into the module that they are of"};
  }
  index.tensors.erase(others.begin(), others.end());
  for (auto& tensor : index.tensors) tensor.name.erase(0, prefix.size());
}

/// Takes what only one of both has from either of them.
RAYTRAIN_TORCH_INLINE auto take_unmatched(TensorIndex& index, std::vector<NamedTensor>& own, std::string const& prefix)
    -> UnmatchedTensors {
  UnmatchedTensors unmatched;
  std::set<std::string> names;
  for (auto const& tensor : index.tensors) names.insert(tensor.name);
  std::erase_if(own, [&](NamedTensor const& named) {
    if (names.erase(named.name) > 0) return false;
    unmatched.missing.push_back(named.name);
    return true;
  });
  std::erase_if(index.tensors, [&](StoredTensor const& tensor) {
    if (!names.contains(tensor.name)) return false;
    unmatched.unexpected.push_back(prefix + tensor.name);
    return true;
  });
  return unmatched;
}

/// Without those that a file has under another of their names.
RAYTRAIN_TORCH_INLINE auto without_shared(std::vector<NamedTensor> const& own, TensorIndex const& index)
    -> std::vector<NamedTensor> {
  std::set<std::string_view> names;
  for (auto const& tensor : index.tensors) names.insert(tensor.name);
  std::set<void const*> there;
  for (auto const& named : own) {
    if (names.contains(named.name)) there.insert(named.tensor.unsafeGetTensorImpl());
  }
  auto rest = own;
  std::erase_if(rest, [&](NamedTensor const& named) {
    return !names.contains(named.name) && there.contains(named.tensor.unsafeGetTensorImpl());
  });
  return rest;
}

RAYTRAIN_TORCH_INLINE auto load_safetensors(torch::nn::Module& module, std::filesystem::path const& path,
                                            SafetensorsOptions const& options) -> UnmatchedTensors {
  auto const file = file_of_model(path);
  auto const attempted = "loading the model '" + file.string() + "'";
  auto const content = bytes_of_model(path, file);
  auto index = read_tensor_index(content.view(), attempted);
  take_prefix(index, options.prefix, attempted);
  UnmatchedTensors unmatched;
  fill_model(module, attempted, [&](std::vector<NamedTensor> const& all) {
    auto own = without_shared(all, index);
    if (!options.strict) unmatched = take_unmatched(index, own, options.prefix);
    if (own.empty() && !all.empty() && !options.strict) {
      throw Error{Errc::backend, attempted, "no name in it is one of this model's",
                  "name a file of this model, and the prefix that its names have there"};
    }
    fill_tensors(content.view(), index, own, attempted,
                 "build the model as the one that the file is of, or name another file");
  });
  return unmatched;
}

}  // namespace raytrain::detail
