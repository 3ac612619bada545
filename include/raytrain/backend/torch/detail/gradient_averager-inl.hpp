// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/backend/torch/detail/backward_exchange.hpp>
#include <raytrain/backend/torch/detail/generators.hpp>
#include <raytrain/backend/torch/detail/gradient_arena.hpp>
#include <raytrain/backend/torch/detail/gradient_averager.hpp>
#include <raytrain/backend/torch/detail/overlap_choice.hpp>
#include <raytrain/backend/torch/detail/shard_step.hpp>
#include <raytrain/backend/torch/detail/step_timer.hpp>
#include <raytrain/backend/torch/detail/tensors_of_ranks.hpp>
#include <raytrain/backend/torch/model_options.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/reduce_op.hpp>
#include <raytrain/collective/wrapped_collective.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_TORCH_INLINE GradientAverager::GradientAverager(torch::nn::Module const& module, std::uint16_t model_number,
                                                         Worker worker)
    : module_{module.weak_from_this()},
      buffers_{worker.exchange.broadcasts_buffers() ? buffers_of(module) : std::vector<Buffer>{}},
      overlap_collective_{worker.exchange.overlap() == Overlap::on ? worker.array_collective().duplicate() : nullptr},
      arena_{module, overlap_collective_ ? *overlap_collective_ : worker.array_collective(), worker.device(),
             buffers_.size() + digest_size},
      cpu_collective_{worker.collective},
      array_collective_{worker.array_collective()},
      model_number_{model_number},
      worker_step_{std::move(worker.worker_step)},
      timer_{std::move(worker.timer)},
      warn_{std::move(worker.warn)},
      before_backward_{std::move(worker.before_backward)},
      print_{std::move(worker.print)},
      model_exchange_{std::move(worker.exchange)},
      spans_hosts_{worker.spans_hosts} {
  if (overlap_collective_) backward_exchange_.emplace(arena_, model_exchange_, *overlap_collective_);
  if (before_backward_) shard_step_.emplace(arena_, cpu_collective_, module.buffers());
  auto const may_measure = model_exchange_.overlap() == Overlap::measured && !shard_step_ &&
                           !array_collective_.takes_device_arrays() &&
                           arena_.cut_into_buckets(model_exchange_.bucket_bytes()).size() > 1;
  if (may_measure) choice_.emplace(spans_hosts_ || worker.has_spare_core);
  for (std::size_t index = 0; index < arena_.size(); ++index) {
    first_parameter_versions_.push_back(version_of(arena_.parameter(index)));
  }
  // Hooks of the tensors, since those of their autograd nodes do not survive loading a state.
  for (std::size_t index = 0; index < arena_.size(); ++index) {
    hook_ids_.push_back(arena_.parameter(index).register_hook(
        [this, index](at::Tensor const& gradient) { on_gradient(index, gradient); }));
  }
}

RAYTRAIN_TORCH_INLINE GradientAverager::~GradientAverager() {
  for (std::size_t index = 0; index < hook_ids_.size(); ++index) arena_.parameter(index).remove_hook(hook_ids_[index]);
}

RAYTRAIN_TORCH_INLINE auto GradientAverager::parameters() const -> std::vector<std::pair<std::string, at::Tensor>> {
  std::vector<std::pair<std::string, at::Tensor>> all;
  for (std::size_t index = 0; index < arena_.size(); ++index)
    all.emplace_back(arena_.name(index), arena_.parameter(index));
  return all;
}

RAYTRAIN_TORCH_INLINE auto GradientAverager::is_unused() const -> bool {
  if (!module_.expired()) return false;
  for (std::size_t index = 0; index < arena_.size(); ++index) {
    if (arena_.parameter(index).use_count() > 1) return false;
  }
  return true;
}

RAYTRAIN_TORCH_INLINE void GradientAverager::check_unchanged() const {
  auto const module = module_.lock();
  if (module == nullptr) return;
  for (auto const& item : module->named_parameters()) {
    if (!item.value().requires_grad() || arena_.has(item.value())) continue;
    throw Error{Errc::backend, "averaging gradients",
                "parameter '" + item.key() + "' wants a gradient since the model was prepared, and would become " +
                    "another one on each rank",
                "call prepare_model() again with this model after such a change"};
  }
}

RAYTRAIN_TORCH_INLINE void GradientAverager::check_has_all_buffers() const {
  auto const module = module_.lock();
  if (module == nullptr || !model_exchange_.broadcasts_buffers()) return;
  auto const now = module->named_buffers();
  if (now.size() <= buffers_.size()) return;
  auto const is_new = [&](auto const& item) {
    return std::ranges::none_of(buffers_, [&](Buffer const& known) { return known.tensor.is_same(item.value()); });
  };
  throw Error{Errc::backend, "sharing buffers",
              "buffer '" + std::ranges::find_if(now, is_new)->key() +
                  "' was registered since the model was prepared, and each rank would keep its own",
              "call prepare_model() again with this model after such a change"};
}

RAYTRAIN_TORCH_INLINE void GradientAverager::Buffer::remember_state() {
  version = version_of(tensor);
  memory = tensor.data_ptr();
  contents.resize(is_compared() ? tensor.nbytes() : 0);
  if (!contents.empty()) std::memcpy(contents.data(), memory, contents.size());
}

RAYTRAIN_TORCH_INLINE auto GradientAverager::Buffer::is_compared() const -> bool {
  return tensor.is_cpu() && tensor.is_contiguous() && tensor.nbytes() < large_tensor_bytes;
}

RAYTRAIN_TORCH_INLINE auto GradientAverager::Buffer::has_other_contents() const -> bool {
  if (contents.size() != tensor.nbytes()) return true;
  return !contents.empty() && std::memcmp(contents.data(), tensor.data_ptr(), contents.size()) != 0;
}

RAYTRAIN_TORCH_INLINE auto GradientAverager::Buffer::has_changed() const -> bool {
  return tensor.is_inference() || version_of(tensor) != version || tensor.data_ptr() != memory;
}

RAYTRAIN_TORCH_INLINE auto GradientAverager::version_of(at::Tensor const& tensor) -> std::uint64_t {
  return tensor.is_inference() ? 0 : static_cast<std::uint64_t>(tensor._version());
}

RAYTRAIN_TORCH_INLINE auto GradientAverager::buffers_of(torch::nn::Module const& module) -> std::vector<Buffer> {
  std::vector<Buffer> buffers;
  for (auto const& item : module.named_buffers()) {
    auto const dot = item.key().rfind('.');
    buffers.push_back({.submodule = dot == std::string::npos ? "" : item.key().substr(0, dot), .tensor = item.value()});
  }
  for (auto& buffer : buffers) buffer.remember_state();
  return buffers;
}

RAYTRAIN_TORCH_INLINE auto GradientAverager::is_to_send(Buffer const& buffer) const -> bool {
  if (buffer.is_compared()) return buffer.has_other_contents();
  return std::ranges::any_of(
      buffers_, [&](Buffer const& each) { return each.submodule == buffer.submodule && each.has_changed(); });
}

RAYTRAIN_TORCH_INLINE auto GradientAverager::parameter_digest() const -> std::uint64_t {
  std::uint64_t digest = 0;
  for (std::size_t index = 0; index < arena_.size(); ++index) {
    auto const& parameter = arena_.parameter(index);
    std::uint64_t bits = 0;
    if (!parameter.is_cpu()) {
      bits = version_of(parameter) - first_parameter_versions_[index];
    } else if (parameter.numel() > 0) {
      std::memcpy(&bits, parameter.data_ptr(), parameter.element_size());
    }
    digest = stream_seed(digest, bits);
  }
  return digest;
}

RAYTRAIN_TORCH_INLINE void GradientAverager::on_gradient(std::size_t index, at::Tensor const& gradient) {
  if (!gradient.defined() || !is_accumulated(arena_.parameter(index))) return;
  if (gradient.requires_grad()) {
    throw Error{Errc::backend, "averaging gradients",
                "parameter '" + arena_.name(index) +
                    "': backward with create_graph makes a graph, which the average of all ranks would lose",
                "compute the inner gradients by torch::autograd::grad(..., create_graph), which averages nothing, and "
                "call backward() without it on the loss that they lead to"};
  }
  if (shard_step_ && gradient.is_sparse()) {
    throw Error{Errc::backend, "averaging gradients over virtual shards",
                "parameter '" + arena_.name(index) + "' has a sparse gradient, whose rows are added in an order of " +
                    "their own",
                "make it dense: torch::nn::EmbeddingOptions::sparse(false)"};
  }
  if (!backward_is_under_way_) {
    if (timer_ != nullptr) (void)timer_->begin_backward();
    if (before_backward_) before_backward_();
    worker_step_->with_batch.check_backward(model_number_);
    auto const under_way = std::make_shared<BackwardUnderWay>(backward_is_under_way_);  // until an error, too
    backward_is_under_way_ = true;
    if (choice_ && !choice_->is_made()) choice_->begin_backward(arena_.size());
    shard_step_ ? shard_step_->begin_backward(parameter_digest()) : begin_backward();
    torch::autograd::Engine::get_default_engine().queue_callback([this, under_way] { on_backward_end(); });
  }
  if (choice_ && !choice_->is_made()) choice_->arrive(index);
  if (!worker_step_->window.is_open()) {
    if (auto* const beside = beside_backward()) beside->arrive(index);
  }
  arena_.place_gradient(index, gradient);
}

RAYTRAIN_TORCH_INLINE void GradientAverager::begin_backward() {
  auto const& window = worker_step_->window;
  auto* const beside = beside_backward();
  if (beside != nullptr && !window.is_open()) beside->begin(tag_of_backward(averaged_backwards_ + 1), gradient_scale());
  if (!window.has_several()) {
    // Gradients that are there are averages already, of all ranks. As they are in a plain mean, they may stay in it.
    if (model_exchange_ || worker_step_->with_batch.factor() != 1) arena_.set_aside();
    return arena_.begin_backward();
  }
  auto const parameters = parameter_digest();
  if (window_sum_.window != window.number()) {
    window_sum_.window = window.number();
    window_sum_.parameters = parameters;
  } else if (window_sum_.parameters != parameters) {
    throw Error{Errc::invalid_call, "accumulating gradients",
                "the parameters of model " + std::to_string(model_number_) +
                    " have changed since another backward for the same call of accumulate(), or of its window",
                "call accumulate() for each batch before its backward, and step the optimizer where it is true"};
  }
  arena_.set_aside();
  if (window_sum_.is_open) {
    arena_.keep_sum();
    if (window_sum_.samples != window.samples()) arena_.scale_sum(window_sum_.samples / window.samples());
  } else {
    arena_.begin_backward();
  }
  window_sum_.samples = window.samples();
}

RAYTRAIN_TORCH_INLINE auto GradientAverager::is_accumulated(at::Tensor const& parameter) -> bool {
  auto const* const tasks = torch::autograd::get_current_graph_task_exec_info();
  if (tasks == nullptr || tasks->empty()) return true;
  auto const task = tasks->find(torch::autograd::impl::grad_accumulator(parameter).get());
  return task == tasks->end() || task->second.needed_;
}

RAYTRAIN_TORCH_INLINE auto GradientAverager::gradient_scale() const -> double {
  auto const& window = worker_step_->window;
  auto const of_window = window.has_several() ? window.samples() / window.all_samples() : 1;
  return model_exchange_.averages() ? of_window * worker_step_->with_batch.factor() : of_window;
}

RAYTRAIN_TORCH_INLINE void GradientAverager::shadow_backward() {
  if (arena_.size() == 0) return;  // nor has a backward of it anything to average
  if (choice_ && !choice_->is_made()) choice_->begin_backward(arena_.size());
  if (auto* const beside = beside_backward()) beside->begin(tag_of_backward(averaged_backwards_ + 1), gradient_scale());
  arena_.set_aside();
  arena_.begin_backward();
  on_backward_end();
}

RAYTRAIN_TORCH_INLINE void GradientAverager::on_backward_end() {
  InPhase const exchanges{timer_.get(), StepTimer::Phase::exchange, StepTimer::Phase::rest};
  check_unchanged();
  auto const& window = worker_step_->window;
  window_sum_.is_open = window.is_open();
  if (!window_sum_.is_open || !worker_step_->with_batch.is_known())
    ++averaged_backwards_;  // windows of ranks that join may differ
  if (window_sum_.is_open) {
    arena_.gather();
    return arena_.hide_gradients();
  }
  if (beside_backward() == nullptr && gradient_scale() != 1) arena_.scale_sum(gradient_scale());
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    if (is_to_send(buffers_[i])) arena_.add_to_number(i, 1);
  }
  auto const parameters = parameter_digest();
  Digest const own{static_cast<std::uint8_t>(parameters), static_cast<std::uint8_t>(parameters >> 8U),
                   static_cast<std::uint8_t>(parameters >> 16U)};
  for (std::size_t i = 0; i < own.size(); ++i) arena_.add_to_number(buffers_.size() + i, own[i]);
  cpu_collective_.tag() = tag_of_backward(averaged_backwards_);
  array_collective_.tag() = cpu_collective_.tag();
  if (average()) warn_of_drift(own);
  if (!shard_step_ || !shard_step_->has_several_turns()) {
    share_buffers([this](std::size_t i) { return arena_.number(i) > 0; });
  } else if (shard_step_->is_in_first_turn()) {
    auto const sent = agree_on_buffers();
    share_buffers([&](std::size_t i) { return sent[i] > 0; });
    shard_step_->keep_buffers();
  } else {
    shard_step_->set_kept_buffers();
    for (auto& buffer : buffers_) buffer.remember_state();
  }
}

RAYTRAIN_TORCH_INLINE auto GradientAverager::tag_of_backward(std::uint32_t number) const -> CallTag {
  return {.of = CallOf::backward,
          .model = model_number_,
          .epoch = static_cast<std::uint16_t>(worker_step_->position.epoch),
          .number = number,
          .samples = static_cast<std::uint32_t>(worker_step_->position.samples)};
}

RAYTRAIN_TORCH_INLINE auto GradientAverager::average() -> bool {
  if (shard_step_) return shard_step_->end_backward();
  auto const is_measured = choice_ && !choice_->is_made();
  if (is_measured) choice_->begin_exchange();
  exchange_gradients();
  if (is_measured) {
    choice_->end_exchange(cpu_collective_);
    follow_choice();
  }
  return true;
}

RAYTRAIN_TORCH_INLINE void GradientAverager::exchange_gradients() {
  // Between hosts, sums of buckets and of whole arrays differ in their last bits. A measured time must not decide
  // those, so both ways sum buckets.
  auto const has_buckets = static_cast<bool>(model_exchange_) || (choice_ && spans_hosts_);
  if (auto* const beside = beside_backward()) {
    beside->end_backward();
    arena_.for_each_count([&](auto values) { cpu_collective_.all_reduce(values, ReduceOp::average); });
    beside->finish(cpu_collective_);
    arena_.show_gradients();
  } else if (has_buckets) {
    model_exchange_.average(arena_, {.of_counts = cpu_collective_, .of_gradients = array_collective_});
  } else {
    arena_.gather();
    if (!arena_.is_whole()) {
      arena_.for_each_count([&](auto values) { cpu_collective_.all_reduce(values, ReduceOp::average); });
    }
    arena_.for_each_array([&](auto values) { array_collective_.all_reduce(values, ReduceOp::average); });
    arena_.show_gradients();
  }
}

RAYTRAIN_TORCH_INLINE void GradientAverager::follow_choice() {
  if (choice_->tries_both() && !backward_exchange_) return begin_overlap();
  if (!choice_->is_made() || !backward_exchange_) return;
  if (print_) print_(fmt::format("model {} exchanges its gradients {}", model_number_, choice_->text()));
  if (!choice_->overlaps()) keep_behind();
}

RAYTRAIN_TORCH_INLINE void GradientAverager::begin_overlap() {
  try {
    overlap_collective_ = array_collective_.duplicate();
  } catch (Error const& error) {
    // No duplicates, as with MPI for one thread: all ranks leave overlap off, since it takes every rank.
    if (error.code() != Errc::invalid_call) throw;
  }
  std::array<std::uint8_t, 1> has_one{overlap_collective_ != nullptr ? std::uint8_t{1} : std::uint8_t{0}};
  cpu_collective_.all_reduce(has_one, ReduceOp::min);
  if (has_one[0] == 0) return keep_behind();
  backward_exchange_.emplace(arena_, model_exchange_, *overlap_collective_);
}

RAYTRAIN_TORCH_INLINE void GradientAverager::keep_behind() {
  if (!choice_) return;
  choice_->stay_behind();
  backward_exchange_.reset();
  overlap_collective_.reset();
}

RAYTRAIN_TORCH_INLINE auto GradientAverager::agree_on_buffers() -> std::vector<std::uint8_t> {
  std::vector<std::uint8_t> sent;
  for (auto const& buffer : buffers_) sent.push_back(is_to_send(buffer) ? 1 : 0);
  if (!sent.empty()) cpu_collective_.all_reduce(sent, ReduceOp::max);
  return sent;
}

RAYTRAIN_TORCH_INLINE void GradientAverager::warn_of_drift(Digest const& own) {
  if (has_warned_of_drift_ || cpu_collective_.rank() != Rank{0}) return;
  constexpr double rounding = 1e-4;
  for (std::size_t i = 0; i < own.size() && !has_warned_of_drift_; ++i) {
    has_warned_of_drift_ = std::abs(arena_.number(buffers_.size() + i) - own[i]) > rounding;
  }
  if (!has_warned_of_drift_) return;
  warn_("the parameters of model " + std::to_string(model_number_) +
        " are not the same on every rank in its backward " + std::to_string(averaged_backwards_) +
        "; change them on every rank alike: as many optimizer steps, also where a backward was left out");
}

RAYTRAIN_TORCH_INLINE void GradientAverager::share_buffers(std::function<bool(std::size_t)> const& is_sent) {
  std::vector<at::Tensor> sent;
  std::vector<at::Tensor> elsewhere;  // than on the worker's device
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    auto const& tensor = buffers_[i].tensor;
    if (is_sent(i)) (tensor.device() == arena_.device() ? sent : elsewhere).push_back(tensor);
  }
  if (sent.empty() && elsewhere.empty()) return;
  if (!sent.empty()) broadcast_tensors(array_collective_, sent, worker_step_->with_batch.first());
  if (!elsewhere.empty()) broadcast_tensors(cpu_collective_, elsewhere, worker_step_->with_batch.first());
  for (auto& buffer : buffers_) buffer.remember_state();
}

}  // namespace raytrain::detail
