// SPDX-License-Identifier: Apache-2.0
// The language model with raytrain: two workers that are threads, each of which updates a part of the parameters. With
// a third argument, bf16 or power_sgd, gradients travel so; with apart, each worker trains a model of its own.
#include <cstdio>
#include <exception>
#include <memory>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

#include <raytrain/backend/torch.hpp>
#include <raytrain/trainer.hpp>

#include "job.hpp"

namespace {

auto exchange_of(std::string_view compression) -> std::shared_ptr<raytrain::GradientExchange> {
  if (compression.empty()) return nullptr;
  if (compression == "bf16") return raytrain::compressed(raytrain::Compression::bf16);
  if (compression != "power_sgd") throw std::invalid_argument{"gradients travel as bf16 or power_sgd"};
  return std::make_shared<raytrain::PowerSGD>(raytrain::PowerSGDConfig{.exact_steps = 10});
}

auto train(raytrain::TorchContext& ctx, job::Options const& options, auto& model, torch::optim::Optimizer& optimizer)
    -> StepFigures {
  job::Rows rows;
  auto const first = ctx.world_rank().value * job::worker_batch;
  auto const figures = job::measure(options, [&] {
    auto const loss = job::loss_of(*model, rows.next(first, job::worker_batch));
    optimizer.zero_grad();
    loss.backward();
    torch::nn::utils::clip_grad_norm_(model->parameters(), job::largest_norm);
    optimizer.step();
    return loss.template item<double>();
  });
  return {figures.first_step_s, figures.samples_per_s, ctx.average(figures.loss)};
}

auto make_model() -> std::shared_ptr<LanguageModel> { return std::make_shared<LanguageModel>(); }

auto train_together(raytrain::TorchContext& ctx, job::Options const& options, std::string_view compression)
    -> StepFigures {
  auto model = ctx.prepare_model(make_model, {.exchange = exchange_of(compression)});
  auto optimizer = ctx.prepare_optimizer<torch::optim::AdamW>(model, {job::learning_rate});
  auto const figures = train(ctx, options, model, optimizer);
  check_equal(model->parameters(),
              [&](std::vector<double>& values) { ctx.collective().broadcast(std::span{values}, raytrain::Rank{0}); });
  return figures;
}

auto train_apart(raytrain::TorchContext& ctx, job::Options const& options) -> StepFigures {
  auto model = ctx.prepare_local_model(make_model);
  torch::optim::AdamW optimizer{model->parameters(), job::learning_rate};
  return train(ctx, options, model, optimizer);
}

}  // namespace

auto main(int argc, char** argv) -> int try {
  auto const options = job::parse(argc, argv);
  std::string_view const way = argc > 3 ? argv[3] : "";
  StepFigures figures;
  raytrain::Trainer<raytrain::TorchBackend> trainer{
      [&](raytrain::TorchContext& ctx) {
        auto const mine = way == "apart" ? train_apart(ctx, options) : train_together(ctx, options, way);
        if (ctx.world_rank() == raytrain::Rank{0}) figures = mine;
      },
      {.scaling = {.num_workers = job::workers, .resources_per_worker = {.cpus = 1}},
       .run = {
           .name = "language_model", .storage_path = "runs", .resume = raytrain::Resume::fresh, .seed = job::seed}}};
  if (trainer.fit().state != raytrain::RunState::finished) throw std::runtime_error{"the training was stopped"};
  job::print(figures);
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "raytrain: %s\n", error.what());
  return 1;
}
