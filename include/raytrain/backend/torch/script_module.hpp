// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace raytrain {

/// TorchScript as a module of LibTorch: what `torch::jit::load` returns is trained, saved and loaded as any model.
///
/// Parameters, buffers (all tensors of it that are no parameters) and submodules are those of the script, by their
/// names there. Loading fills them where they lie; `train`, `eval` and `to` reach the script.
class ScriptModule : public torch::nn::Module {
 public:
  /// Errors: `c10::Error` for an empty script.
  explicit ScriptModule(torch::jit::Module script);

  /// Calls the script's `forward`, which gives one tensor; `script().forward` gives anything else.
  ///
  /// Errors: `backend`, with the last line of what the script's interpreter says, for whatever fails in it.
  template <class... Inputs>
  [[nodiscard]] auto forward(Inputs&&... inputs) -> torch::Tensor {
    return call({c10::IValue{std::forward<Inputs>(inputs)}...});
  }

  void train(bool on = true) override;

  /// With the weights as they are: `model->script().save("net.pt")` writes it for Python's torch.jit.load.
  [[nodiscard]] auto script() noexcept -> torch::jit::Module& { return script_; }

 private:
  /// A tensor that both have, and where the script has it.
  struct Buffer {
    torch::jit::Module owner;
    std::string name;
    torch::Tensor tensor;
    bool may_be_replaced = false;  ///< By another tensor: some method of the script says so.
  };

  auto call(std::vector<c10::IValue> inputs) -> torch::Tensor;

  /// Gives the script what it has of each buffer while it runs: with a graph a copy where the script may put another
  /// tensor in its place, since the graph's must not change before the backward.
  void give_buffers();

  /// Brings what the script has made of buffers into those of the module.
  void take_buffers();

  /// Registers the script's tensors in the module, which both then have, and the same of its submodules. `assigned`:
  /// names of attributes that the script puts others in place of.
  void mirror(torch::nn::Module& module, torch::jit::Module const& script, std::set<std::string> const& assigned);

  torch::jit::Module script_;
  std::vector<Buffer> buffers_;
};

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/script_module-inl.hpp>
#endif
