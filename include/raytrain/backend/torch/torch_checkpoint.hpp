// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <raytrain/backend/torch/torch_call.hpp>
#include <raytrain/backend/torch/torch_module.hpp>
#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>

namespace raytrain {

/// A model or an optimizer: what has a state that LibTorch stores and loads.
template <class T>
concept TorchState = TorchModule<T> || std::derived_from<T, torch::optim::Optimizer>;

namespace detail {

template <TorchState T>
[[nodiscard]] auto state_of(T const& value) -> auto& {
  if constexpr (TorchModule<T>) {
    return module_of(value);
  } else {
    return const_cast<T&>(value);  // load() fills it; save() only reads
  }
}

/// Name, shape and type of all that a checkpoint of the module holds.
struct TensorFormat {
  std::string name;
  std::vector<std::int64_t> sizes;
  at::ScalarType type{};
  friend auto operator==(TensorFormat const&, TensorFormat const&) -> bool = default;

  [[nodiscard]] auto shape() const -> std::string {
    return fmt::format("{{{}}} {}", fmt::join(sizes, ", "), c10::toString(type));
  }
};

[[nodiscard]] inline auto formats_of(torch::nn::Module const& module) -> std::vector<TensorFormat> {
  std::vector<TensorFormat> formats;
  auto const add = [&](auto const& items) {
    for (auto const& item : items) {
      formats.push_back({item.key(), item.value().sizes().vec(), item.value().scalar_type()});
    }
  };
  add(module.named_parameters());
  add(module.named_buffers());
  return formats;
}

inline constexpr auto state_remedy = "build it as it was when it was saved, or start a new run";

}  // namespace detail

/// The state as bytes of LibTorch's own file format, which torch::load and torch.jit.load read.
///
/// Errors: `backend`.
/// Cost: memory for the bytes, once.
template <TorchState T>
[[nodiscard]] auto state_to_bytes(T const& value) -> Bytes {
  return detail::torch_call("storing a state", [&] {
    Bytes bytes;
    torch::serialize::OutputArchive archive{std::make_shared<torch::jit::CompilationUnit>()};
    detail::state_of(value).save(archive);
    // Counted first: growing would hold them twice, and takes longer.
    std::size_t size_bytes = 0;
    archive.save_to([&](void const*, std::size_t size) {
      size_bytes += size;
      return size;
    });
    bytes.reserve(size_bytes);
    archive.save_to([&](void const* data, std::size_t size) {
      auto const* const first = static_cast<std::byte const*>(data);
      bytes.insert(bytes.end(), first, first + size);
      return size;
    });
    return bytes;
  });
}

/// Fills `value` with what `state_to_bytes` gave. `attempted` begins the message of an error.
///
/// Gradients stay as they are, and so does what `prepare_model` attached.
/// Errors: `backend` for bytes that are not such, and for a state of other names, shapes or types; `value` is then to
///         be thrown away.
template <TorchState T>
void state_from_bytes(BytesView bytes, T& value, std::string_view attempted = "loading a state") {
  auto& state = detail::state_of(value);
  auto const load = [&] {
    torch::serialize::InputArchive archive;
    archive.load_from(reinterpret_cast<char const*>(bytes.data()), bytes.size());
    state.load(archive);
  };
  if constexpr (TorchModule<T>) {
    auto const expected = detail::formats_of(state);
    detail::torch_call(attempted, load, detail::state_remedy);
    auto const found = detail::formats_of(state);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (expected[i] == found[i]) continue;
      throw Error{
          Errc::backend, std::string{attempted},
          fmt::format("'{}' is {} there and {} in this model", expected[i].name, found[i].shape(), expected[i].shape()),
          detail::state_remedy};
    }
  } else {
    detail::torch_call(attempted, load, detail::state_remedy);
  }
}

/// State that is the same on every rank, for `report`: model.pt, and optimizer.pt if there is one. Rank 0 stores it
/// inside `report`; until then both must live.
///
/// For more than that, fill a draft of your own:
/// `CheckpointDraft::replicated([&](auto& draft) { draft.add("critic.pt", state_to_bytes(critic)); })`.
template <TorchModule M, std::derived_from<torch::optim::Optimizer>... O>
[[nodiscard]] auto save(M const& model, O const&... optimizer) -> CheckpointDraft {
  static_assert(sizeof...(O) <= 1, "raytrain: save() takes a model and at most one optimizer");
  return CheckpointDraft::replicated([&model, &... optimizer = optimizer](CheckpointDraft& draft) {
    draft.add("model.pt", state_to_bytes(model));
    (draft.add("optimizer.pt", state_to_bytes(optimizer)), ...);
  });
}

/// Fills a model, and an optimizer if there is one, with what `save` put into a checkpoint.
///
/// Errors: those of `Checkpoint::read`, `not_found` among them when the checkpoint has no model.pt; `backend` when it
///         is of another model.
template <TorchModule M, std::derived_from<torch::optim::Optimizer>... O>
void load(Checkpoint const& checkpoint, M& model, O&... optimizer) {
  static_assert(sizeof...(O) <= 1, "raytrain: load() takes a model and at most one optimizer");
  auto const fill = [&](std::string const& name, auto& value) {
    state_from_bytes(checkpoint.read(name), value, "loading " + (checkpoint.path() / name).string());
  };
  fill("model.pt", model);
  (fill("optimizer.pt", optimizer), ...);
}

}  // namespace raytrain
