// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <raytrain/backend/torch/detail/generators.hpp>
#include <raytrain/backend/torch/detail/parameter_names.hpp>
#include <raytrain/backend/torch/detail/stored_tensors.hpp>
#include <raytrain/backend/torch/torch_checkpoint.hpp>
#include <raytrain/backend/torch/training_state.hpp>
#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/checkpoint/checkpoint_draft.hpp>
#include <raytrain/checkpoint/rank_folder.hpp>
#include <raytrain/checkpoint/safetensors.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/message/json.hpp>

namespace raytrain::detail {

/// What a checkpoint's metadata say of the parts: the kind of each by its name, as JSON.
constexpr auto parts_key = "training_state";

/// Whether the optimizer has a parameter of the model.
RAYTRAIN_TORCH_INLINE auto has_parameter_of(torch::optim::Optimizer const& optimizer, torch::nn::Module const& module)
    -> bool {
  auto const parameters = module.parameters();
  return std::ranges::any_of(optimizer.param_groups(), [&](auto const& group) {
    return std::ranges::any_of(group.params(), [&](at::Tensor const& own) {
      return std::ranges::any_of(parameters, [&](at::Tensor const& parameter) { return parameter.is_same(own); });
    });
  });
}

}  // namespace raytrain::detail

namespace raytrain {

RAYTRAIN_TORCH_INLINE void TrainingState::Part::keep_state(std::function<detail::StateOwner()> find) {
  add_ = [find, name = name_](CheckpointDraft& draft, std::string const& folder,
                              detail::ParameterNames const& parameters) {
    detail::add_state(draft, find, folder + name, parameters);
  };
  load_ = [find, name = name_](Checkpoint const& checkpoint, std::string const& folder,
                               detail::ParameterNames const& parameters) {
    detail::load_state(checkpoint, find, folder + name, parameters);
    return std::string{};
  };
}

RAYTRAIN_TORCH_INLINE void TrainingState::Part::keep_own(
    std::string file, std::function<Bytes()> to_bytes,
    std::function<void(BytesView, std::string const& attempted)> from_bytes) {
  own_file_ = std::move(file);
  to_bytes_ = std::move(to_bytes);
  from_bytes_ = std::move(from_bytes);
}

RAYTRAIN_TORCH_INLINE TrainingState::TrainingState(std::initializer_list<Part> parts) : parts_{parts} {
  auto const refuse = [](std::string happened) {
    throw Error{Errc::invalid_call, "TrainingState", std::move(happened),
                "give each part a name of its own: {\"judge\", judge}"};
  };
  for (auto part = parts_.begin(); part != parts_.end(); ++part) {
    if (part->shard_ == nullptr) {
      if (part->name_.empty()) refuse(part->kind_ + " has an empty name");
      if (part->name_.find('/') != std::string::npos) refuse("the name '" + part->name_ + "' has a '/'");
      if (part->names_file_) CheckpointDraft{}.add(part->name_, std::string_view{});  // refuses what no file can have
    }
    auto const same = std::find_if(parts_.begin(), part, [&](Part const& before) {
      return before.name_ == part->name_ && (before.shard_ == nullptr) == (part->shard_ == nullptr);
    });
    if (same != part) {
      refuse(fmt::format("two parts have the name '{}': {} and {}", part->name_, same->kind_, part->kind_));
    }
  }
  for (auto part = parts_.begin(); part != parts_.end(); ++part) {
    auto const same = std::find_if(parts_.begin(), part, [&](Part const& before) {
      return part->schedule_ != nullptr && before.schedule_ != nullptr &&
             &before.schedule_->optimizer() == &part->schedule_->optimizer();
    });
    if (same == part) continue;
    throw Error{
        Errc::invalid_call, "TrainingState",
        fmt::format("'{}' and '{}' are schedules of one optimizer, whose rates would be those of the last step, "
                    "and after a resume those of '{}'",
                    same->name_, part->name_, part->name_),
        "give each optimizer one schedule, such as a RuleSchedule by a rule that joins both"};
  }
  for (auto& optimizer : parts_) {
    if (optimizer.optimizer_ == nullptr) continue;
    for (auto const& model : parts_) {
      if (model.module_ != nullptr && detail::has_parameter_of(*optimizer.optimizer_, *model.module_)) {
        optimizer.local_rank_ = model.local_rank_;
      }
    }
  }
  auto const local = std::ranges::find_if(parts_, [](Part const& part) { return part.module_ != nullptr; });
  if (local == parts_.end()) return;
  for (auto& part : parts_) {
    if (!part.file_.empty() && !part.begin_from_model_) part.local_rank_ = local->local_rank_;
  }
}

RAYTRAIN_TORCH_INLINE auto TrainingState::optimizers() const -> std::vector<torch::optim::Optimizer*> {
  std::vector<torch::optim::Optimizer*> all;
  for (auto const& part : parts_) {
    if (part.optimizer_ != nullptr) all.push_back(part.optimizer_);
  }
  return all;
}

RAYTRAIN_TORCH_INLINE auto TrainingState::followed_scaler() const -> std::weak_ptr<detail::ScalerState const> {
  auto const found = std::ranges::find_if(parts_, [](Part const& part) { return part.scaler_ != nullptr; });
  if (found == parts_.end()) return {};
  return found->scaler_->followed_state();
}

RAYTRAIN_TORCH_INLINE auto TrainingState::schedules() const -> std::vector<LrSchedule*> {
  std::vector<LrSchedule*> all;
  for (auto const& part : parts_) {
    if (part.schedule_ != nullptr) all.push_back(part.schedule_);
  }
  return all;
}

RAYTRAIN_TORCH_INLINE auto TrainingState::shards() const -> std::vector<TorchShard*> {
  std::vector<TorchShard*> all;
  for (auto const& part : parts_) {
    if (part.shard_ != nullptr) all.push_back(part.shard_);
  }
  return all;
}

RAYTRAIN_TORCH_INLINE auto TrainingState::has_scheduler() const -> bool {
  return std::ranges::any_of(parts_, &Part::is_scheduler_);
}

RAYTRAIN_TORCH_INLINE auto TrainingState::load_models(Checkpoint const& checkpoint) const -> std::vector<std::string> {
  TrainingState models{};
  std::ranges::copy_if(parts_, std::back_inserter(models.parts_), &Part::is_model_);
  load(checkpoint, models);
  for (auto const& part : parts_) {
    if (part.begin_from_model_) part.begin_from_model_();
  }
  std::vector<std::string> news;
  for (auto const& part : models.parts_) {
    if (auto text = lost_of_others(part, checkpoint); !text.empty()) news.push_back(std::move(text));
  }
  return news;
}

RAYTRAIN_TORCH_INLINE auto TrainingState::differences(Checkpoint const& checkpoint) const
    -> std::map<std::string, std::string> {
  auto const text = checkpoint.metadata().find(detail::parts_key);
  if (text == checkpoint.metadata().end()) return {};
  std::map<std::string, std::string> stored;
  auto const parsed = parse_json(text->second, "the parts in " + checkpoint.location());
  if (auto const* const object = parsed.get_if<JsonObject>()) {
    for (auto const& member : *object) {
      if (auto const* const kind = member.value.get_if<std::string>()) stored[member.name] = *kind;
    }
  }
  std::map<std::string, std::string> found;
  for (auto const& part : parts_) {
    if (part.shard_ != nullptr) continue;
    auto const there = stored.extract(part.name_);
    if (!there) {
      found[part.name_] = fmt::format("{} '{}' is not there", part.kind_, part.name_);
    } else if (there.mapped() != part.kind_) {
      found[part.name_] =
          fmt::format("'{}' is {} here, and {} there", part.name_, part.kind_, shown_tensor_name(there.mapped()));
    }
  }
  for (auto const& [name, kind] : stored) {
    found[name] =
        fmt::format("{} '{}' is there, and not in this state", shown_tensor_name(kind), shown_tensor_name(name));
  }
  return found;
}

RAYTRAIN_TORCH_INLINE auto TrainingState::file_in(Part const& part, Checkpoint const& checkpoint,
                                                  std::string const& folder) -> std::string {
  if (!part.file_.empty()) return folder + part.file_;
  auto const tensors = detail::tensors_name(folder + part.name_);
  return checkpoint.contains(tensors) ? tensors : detail::archive_name(folder + part.name_);
}

RAYTRAIN_TORCH_INLINE
auto TrainingState::lost_of_others(Part const& part, Checkpoint const& checkpoint) -> std::string {
  auto const savers = checkpoint.world_size();
  auto const first = file_in(part, checkpoint, "");
  for (std::uint32_t rank = 1; rank < savers.value && checkpoint.contains(first); ++rank) {
    auto const file = file_in(part, checkpoint, rank_folder_name(Rank{rank}) + "/");
    if (!checkpoint.contains(file) || std::ranges::equal(checkpoint.view(file).view(), checkpoint.view(first).view())) {
      continue;
    }
    return fmt::format("{} '{}' was another one on each of the {} workers that saved it; all begin with rank 0's",
                       part.kind_, part.name_, savers.value);
  }
  return {};
}

RAYTRAIN_TORCH_INLINE auto TrainingState::parameter_names(Part const& part, std::vector<Part> const& parts)
    -> detail::ParameterNames {
  if (part.optimizer_ == nullptr) return {};
  std::map<std::string, torch::nn::Module const*> models;
  for (auto const& each : parts) {
    if (!each.find_module_) continue;
    if (auto const* const module = each.find_module_()) models.emplace(each.name_, module);
  }
  return detail::parameter_names(*part.optimizer_, models);
}

RAYTRAIN_TORCH_INLINE auto TrainingState::load_file(Part const& part, Checkpoint const& checkpoint, Worker worker,
                                                    Extent extent) const -> std::string {
  auto const parameters = parameter_names(part, parts_);
  if (part.local_rank_ && checkpoint.world_size() == worker.world_size) {
    auto const own = rank_folder_name(worker.rank) + "/";
    return part.load_(checkpoint, checkpoint.contains(file_in(part, checkpoint, own)) ? own : "", parameters);
  }
  auto news = part.load_(checkpoint, "", parameters);
  if (extent == Extent::these) return news;
  auto const lost = lost_of_others(part, checkpoint);
  return news.empty() || lost.empty() ? news + lost : news + "; " + lost;
}

RAYTRAIN_TORCH_INLINE auto TrainingState::load_own(Part const& part, Checkpoint const& checkpoint, Worker worker)
    -> std::string {
  auto const path_of = [&](std::uint32_t rank) { return rank_folder_name(Rank{rank}) + "/" + part.own_file_; };
  auto const fill = [&](std::uint32_t rank) {
    auto const attempted = "loading " + checkpoint.location() + "/" + path_of(rank);
    try {
      part.from_bytes_(checkpoint.read(path_of(rank)), attempted);
    } catch (Error const& error) {
      if (error.code() != Errc::bad_message) throw;
      throw Error{Errc::backend, attempted, "it holds no such " + part.kind_ + ": " + error.happened(),
                  detail::state_remedy};
    }
  };
  auto const savers = checkpoint.world_size();
  if (savers == worker.world_size) {
    fill(worker.rank.value);
    return {};
  }
  if (part.generator_ != nullptr) {
    auto const seed = part.generator_->current_seed();
    part.generator_->set_current_seed(detail::stream_seed(seed, checkpoint.training_iteration()));
    return {};
  }
  std::vector<Bytes> of_ranks;
  for (std::uint32_t rank = 0; rank < savers.value; ++rank) of_ranks.push_back(checkpoint.read(path_of(rank)));
  if (std::ranges::any_of(of_ranks, [&](Bytes const& own) { return !std::ranges::equal(own, of_ranks.front()); })) {
    if (part.from_others_) return part.from_others_(of_ranks, worker.world_size);
    return fmt::format(
        "'{}' was another one on each of the {} workers that saved it; now there are {}, on which it begins as it was "
        "made",
        part.name_, savers.value, worker.world_size.value);
  }
  fill(0);
  return {};
}

RAYTRAIN_TORCH_INLINE auto TrainingState::load_parts(Checkpoint const& checkpoint, Worker worker, Extent extent) const
    -> std::vector<std::string> {
  auto const differing = extent == Extent::all ? differences(checkpoint) : std::map<std::string, std::string>{};
  std::vector<std::string> news;
  std::vector<Error> errors;
  auto const load = [&](Part const& part) {
    try {
      auto text = part.load_       ? load_file(part, checkpoint, worker, extent)
                  : part.to_bytes_ ? load_own(part, checkpoint, worker)
                                   : std::string{};
      if (!text.empty()) news.push_back(std::move(text));
    } catch (Error const& error) {
      if (error.code() != Errc::backend && error.code() != Errc::not_found) throw;
      errors.push_back(error);
    }
  };
  for (auto const changes_others : {false, true}) {
    for (auto const& part : parts_) {
      if (part.changes_others_ == changes_others && !differing.contains(part.name_)) load(part);
    }
  }
  if (differing.empty() && errors.empty()) return news;
  if (differing.empty() && errors.size() == 1) throw errors.front();
  std::vector<std::string> texts;
  for (auto const& [name, text] : differing) texts.push_back(text);
  for (auto const& error : errors) texts.push_back(error.attempted() + ": " + error.happened());
  throw Error{Errc::backend, "restoring a training from " + checkpoint.location(),
              fmt::format("{}", fmt::join(texts, "; ")),
              "build it as it was when it was saved, take some parts of it by load(), or start a new run"};
}

RAYTRAIN_TORCH_INLINE auto TrainingState::to_draft() const -> CheckpointDraft {
  std::optional<bool> is_on_rank_0;  // where other ranks store something, too
  for (auto const& part : parts_) {
    if (part.local_rank_) is_on_rank_0 = *part.local_rank_ == Rank{0};
    if (part.optimizer_ == nullptr) continue;
    if (auto const is_here = detail::is_stored_here(*part.optimizer_)) is_on_rank_0 = is_here;
  }
  auto const is_of_all = [](Part const& part) {
    return part.local_rank_ || (part.optimizer_ != nullptr && detail::is_stored_here(*part.optimizer_).has_value());
  };
  CheckpointDraft::Fill fill = [is_on_rank_0, is_of_all, parts = parts_](CheckpointDraft& draft) {
    auto const is_here = is_on_rank_0.value_or(true);
    std::string kinds;
    for (auto const& part : parts) {
      auto const is_own = part.local_rank_ && !is_here;
      if (part.add_ && (is_here || is_of_all(part))) {
        part.add_(draft, is_own ? rank_folder_name(*part.local_rank_) + "/" : "", parameter_names(part, parts));
      }
      if (part.shard_ != nullptr) continue;
      kinds += (kinds.empty() ? "" : ", ") + json_string(part.name_) + ": " + json_string(part.kind_);
    }
    if (is_here) draft.set_metadata(detail::parts_key, "{" + kinds + "}");
  };
  auto draft = is_on_rank_0 ? CheckpointDraft::sharded(std::move(fill)) : CheckpointDraft::replicated(std::move(fill));
  for (auto const& part : parts_) {
    if (part.to_bytes_) draft.add_own(part.own_file_, part.to_bytes_());
  }
  return draft;
}

RAYTRAIN_TORCH_INLINE auto save(TrainingState const& state) -> CheckpointDraft { return state.to_draft(); }

RAYTRAIN_TORCH_INLINE void load(Checkpoint const& checkpoint, TrainingState const& state) {
  (void)state.load_parts(checkpoint, {Rank{0}, checkpoint.world_size()}, TrainingState::Extent::these);
}

}  // namespace raytrain
