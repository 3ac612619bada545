// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/SequenceNumber.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/custom_class.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <raytrain/backend/torch/detail/autocast_state.hpp>
#include <raytrain/backend/torch/detail/generators.hpp>
#include <raytrain/backend/torch/detail/own_default_generator.hpp>
#include <raytrain/backend/torch/detail/recomputed_function.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

/// Of the calling thread, on which a function depends beside its tensors: on the CPU, and on the GPU that the tensors
/// are on, if they are.
class Surroundings {
 public:
  explicit Surroundings(std::vector<at::Tensor> const& tensors) : Surroundings{gpu_of(tensors)} {}

  /// What is now where these were.
  [[nodiscard]] auto as_of_now() const -> Surroundings { return Surroundings{gpu_}; }

  void put_in_place() const {
    autocast_.put_in_place();
    set_default_generator_state(generator_state_);
    if (!on_gpu_) return;
    on_gpu_->autocast.put_in_place();
    auto generator = OwnDefaultGenerator::current(*gpu_);
    std::scoped_lock const lock{generator.mutex()};
    generator.set_state(on_gpu_->generator_state);
  }

 private:
  struct OnGpu {
    AutocastState autocast;
    at::Tensor generator_state;
  };

  explicit Surroundings(std::optional<torch::Device> gpu) : gpu_{gpu} {
    if (!gpu) return;
    auto generator = OwnDefaultGenerator::current(*gpu);
    std::scoped_lock const lock{generator.mutex()};
    on_gpu_ = {AutocastState::of(gpu->type()), generator.get_state()};
  }

  static auto gpu_of(std::vector<at::Tensor> const& tensors) -> std::optional<torch::Device> {
    auto const found = std::ranges::find_if(tensors, [](auto const& tensor) { return tensor.is_cuda(); });
    return found != tensors.end() ? std::optional{found->device()} : std::nullopt;
  }

  AutocastState autocast_ = AutocastState::of(at::kCPU);
  at::Tensor generator_state_ = default_generator_state();
  std::optional<torch::Device> gpu_;
  std::optional<OnGpu> on_gpu_;
};

/// While it lives the thread computes in other surroundings.
class InSurroundings {
 public:
  explicit InSurroundings(Surroundings const& others) : before_{others.as_of_now()} { others.put_in_place(); }
  InSurroundings(InSurroundings const&) = delete;
  auto operator=(InSurroundings const&) -> InSurroundings& = delete;
  ~InSurroundings() { before_.put_in_place(); }

 private:
  Surroundings before_;
};

/// A buffer that a function changes, and what was in it before.
struct ChangedBuffer {
  at::Tensor buffer;
  at::Tensor before;

  /// While it lives the buffers have what was in them before; what is done to them is lost.
  class Replaced {
   public:
    explicit Replaced(std::vector<ChangedBuffer> const& buffers) : buffers_{buffers} {
      for (auto const& [buffer, before] : buffers) contents_.push_back(buffer.detach());
      for (auto const& [buffer, before] : buffers) buffer.set_data(before.clone());
    }
    Replaced(Replaced const&) = delete;
    auto operator=(Replaced const&) -> Replaced& = delete;
    ~Replaced() {
      for (std::size_t i = 0; i < contents_.size(); ++i) buffers_[i].buffer.set_data(contents_[i]);
    }

   private:
    std::vector<ChangedBuffer> const& buffers_;
    std::vector<at::Tensor> contents_;
  };
};

/// Leaves in the place of a model's parameters, by which a graph gives gradients without a call of the parameters'
/// hooks: these wait for the gradient of the whole backward.
///
/// To be made before the graph, whose nodes this thread makes.
class OtherLeaves {
 public:
  /// Where the graph may end, and what it ends in then, which may be the same.
  void replace(at::Tensor const& leaf, at::Tensor const& by) {
    originals_.push_back(torch::autograd::impl::grad_accumulator(leaf));
    leaves_.emplace(originals_.back().get(), torch::autograd::impl::gradient_edge(by));
  }

  /// Changes the graph behind the results. Errors: `invalid_call` for one that ends elsewhere.
  void put_behind(std::vector<at::Tensor> const& results) const {
    std::vector<torch::autograd::Node*> open;
    std::unordered_set<torch::autograd::Node*> seen;
    auto const follow = [&](torch::autograd::Node* node) {
      auto const* const leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(node);
      if (leaf != nullptr || node->sequence_nr() < first_) refuse(leaf != nullptr ? leaf->variable : at::Tensor{});
      if (seen.insert(node).second) open.push_back(node);
    };
    for (auto const& result : results) follow(result.grad_fn().get());
    while (!open.empty()) {
      auto* const node = open.back();
      open.pop_back();
      for (auto& edge : node->next_edges()) {
        if (!edge.is_valid()) continue;
        auto const found = leaves_.find(edge.function.get());
        found != leaves_.end() ? void(edge = found->second) : follow(edge.function.get());
      }
    }
  }

 private:
  [[noreturn]] static void refuse(at::Tensor const& leaf) {
    throw Error{Errc::invalid_call, "the backward of an activation_checkpoint()",
                fmt::format("its function uses a tensor{} that is neither an input nor a parameter of its module, and "
                            "would get no gradient",
                            leaf.defined() ? fmt::format(" of {}", c10::str(leaf.sizes())) : ""),
                "give it as another input, or give the module that has it"};
  }

  std::uint64_t first_ = at::sequence_number::peek();
  /// Which live as long as somebody has them. LibTorch has made another pointer of it.
  std::vector<decltype(torch::autograd::Edge::function)> originals_;
  std::unordered_map<torch::autograd::Node const*, torch::autograd::Edge> leaves_;
};

/// Its inputs are those of a function, and behind them the parameters.
struct RecomputedFunction : torch::autograd::Function<RecomputedFunction> {
  /// What a backward needs beside tensors.
  struct Pass : torch::CustomClassHolder {
    std::shared_ptr<torch::nn::Module const> module;  ///< Only to keep it; null for one that nobody shares.
    std::vector<ChangedBuffer> changed_buffers;
    std::vector<at::Tensor> read_buffers{};  ///< The others.
    std::vector<std::int64_t> versions{};    ///< Of these.
    TensorsFunction function;
    std::size_t inputs = 0;
    std::size_t results = 0;
    Surroundings surroundings;

    explicit Pass(std::vector<at::Tensor> const& tensors) : surroundings{tensors} {}

    /// With a graph.
    [[nodiscard]] auto run_again(std::vector<at::Tensor> const& given) const -> std::vector<at::Tensor> {
      InSurroundings const as_before{surroundings};
      torch::AutoGradMode const with_graph{true};
      auto of_function = function(given);
      for (auto& result : of_function) {
        if (result.requires_grad() && result.is_leaf()) result = result.view_as(result);
      }
      return of_function;
    }
  };

  static auto forward(torch::autograd::AutogradContext* ctx, c10::intrusive_ptr<Pass> pass, at::TensorList tensors)
      -> torch::autograd::variable_list {
    auto const inputs = tensors.slice(0, pass->inputs).vec();
    auto const versions = versions_of(inputs);
    for (auto& [buffer, before] : pass->changed_buffers) before = buffer.clone();
    auto results = pass->function(inputs);
    std::erase_if(pass->changed_buffers, [&](auto const& each) {
      auto const is_as_before = at::equal(each.buffer, each.before);
      if (is_as_before) pass->read_buffers.push_back(each.buffer);
      return is_as_before;
    });
    pass->versions = versions_of(pass->read_buffers);
    check_defined(results, "result");
    if (versions_of(inputs) != versions) {
      throw Error{Errc::invalid_call, "activation_checkpoint()",
                  "its function changes an input in place, and would begin with the changed one when it runs again",
                  "let it make a new tensor, or change a clone"};
    }
    for (auto& result : results) result = result.detach();  // autograd would change one that somebody else has
    pass->results = results.size();
    ctx->set_materialize_grads(false);
    ctx->save_for_backward(tensors.vec());
    ctx->saved_data["pass"] = c10::IValue::make_capsule(std::move(pass));
    return results;
  }

  static auto backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list gradients)
      -> torch::autograd::variable_list {
    if (at::GradMode::is_enabled()) {
      refuse("is called with create_graph, and has no gradient of its own", "call it without create_graph");
    }
    auto const pass = c10::static_intrusive_pointer_cast<Pass>(ctx->saved_data["pass"].toCapsule());
    auto const tensors = ctx->get_saved_variables();
    if (versions_of(pass->read_buffers) != pass->versions) {
      refuse("finds a buffer of its module changed, with which its function would run again",
             "change buffers before the forward, or behind the backward");
    }
    ChangedBuffer::Replaced const buffers{pass->changed_buffers};  // also where the graph refers to them
    OtherLeaves others;
    std::vector<at::Tensor> leaves;
    for (auto const& tensor : tensors) {
      auto const& leaf = leaves.emplace_back(tensor.detach().requires_grad_(tensor.requires_grad()));
      if (tensor.requires_grad()) others.replace(leaves.size() > pass->inputs ? tensor : leaf, leaf);
    }
    auto const results = pass->run_again(std::vector(leaves.begin(), std::next(leaves.begin(), pass->inputs)));
    check_same(results, *pass);
    std::vector<at::Tensor> roots;
    std::vector<at::Tensor> of_roots;
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!gradients[i].defined() || !results[i].requires_grad()) continue;
      roots.push_back(results[i]);
      of_roots.push_back(gradients[i]);
    }
    others.put_behind(roots);
    return gradients_of(roots, of_roots, leaves);
  }

  static void check_defined(std::vector<at::Tensor> const& tensors, char const* what) {
    auto const undefined = std::ranges::find_if(tensors, [](auto const& tensor) { return !tensor.defined(); });
    if (undefined == tensors.end()) return;
    throw Error{Errc::invalid_call, "activation_checkpoint()",
                fmt::format("{} {} of its function is undefined", what, undefined - tensors.begin() + 1),
                "give it a function that leaves it out"};
  }

 private:
  [[noreturn]] static void refuse(std::string happened, char const* remedy) {
    throw Error{Errc::invalid_call, "the backward of an activation_checkpoint()", std::move(happened), remedy};
  }

  static auto versions_of(std::vector<at::Tensor> const& tensors) -> std::vector<std::int64_t> {
    std::vector<std::int64_t> versions;
    for (auto const& tensor : tensors) versions.push_back(tensor.is_inference() ? 0 : tensor._version());
    return versions;
  }

  static void check_same(std::vector<at::Tensor> const& results, Pass const& pass) {
    if (results.size() != pass.results) {
      refuse(fmt::format("its function gives {} tensors when it runs again, and gave {}", results.size(), pass.results),
             "give it a function that does the same whenever it is called");
    }
    if (std::ranges::none_of(results, [](auto const& result) { return result.requires_grad(); })) {
      refuse("no result of its function depends on an input or a parameter that requires a gradient",
             "call the function itself, under torch::NoGradGuard");
    }
  }

  /// With an undefined one first, of the pass.
  static auto gradients_of(std::vector<at::Tensor> const& roots, std::vector<at::Tensor> const& of_roots,
                           std::vector<at::Tensor> const& leaves) -> torch::autograd::variable_list {
    torch::autograd::variable_list gradients(1 + leaves.size());
    if (roots.empty()) return gradients;
    std::vector<at::Tensor> wanted;
    std::ranges::copy_if(leaves, std::back_inserter(wanted), [](auto const& leaf) { return leaf.requires_grad(); });
    auto const found = torch::autograd::grad(roots, wanted, of_roots, {}, false, /*allow_unused=*/true);
    auto next = found.begin();
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      if (leaves[i].requires_grad()) gradients[1 + i] = *next++;
    }
    return gradients;
  }
};

RAYTRAIN_TORCH_INLINE auto recomputed(torch::nn::Module const& module, TensorsFunction function,
                                      std::vector<at::Tensor> const& inputs) -> std::vector<at::Tensor> {
  auto tensors = inputs;
  for (auto const& parameter : module.parameters()) {
    if (parameter.requires_grad()) tensors.push_back(parameter);
  }
  RecomputedFunction::check_defined(inputs, "input");
  auto const requires_grad = [](auto const& tensor) { return tensor.requires_grad(); };
  if (!at::GradMode::is_enabled() || std::ranges::none_of(tensors, requires_grad)) return function(inputs);
  auto pass = c10::make_intrusive<RecomputedFunction::Pass>(tensors);
  pass->module = module.weak_from_this().lock();
  for (auto const& buffer : module.buffers()) pass->changed_buffers.push_back({buffer, {}});
  pass->function = std::move(function);
  pass->inputs = inputs.size();
  return RecomputedFunction::apply(std::move(pass), at::TensorList{tensors});
}

}  // namespace raytrain::detail
