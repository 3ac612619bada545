// SPDX-License-Identifier: Apache-2.0
// Trains a small transformer on real text, the licences that come with Debian, and lets it write a few lines. Stopped
// within an epoch, it goes on at the very next batch. Run ./examples/run language_model (--help lists the options);
// expect a validation loss of 1.4 or less (2 bits per byte) after 10 epochs.
#include <sysexits.h>

#include <algorithm>
#include <exception>
#include <memory>

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <raytrain/backend/torch.hpp>
#include <raytrain/callback/progress_bar.hpp>
#include <raytrain/trainer.hpp>

#include "language_model/network.hpp"
#include "language_model/options.hpp"
#include "language_model/text.hpp"

namespace {

constexpr auto context = ModelShape{}.context;

struct Epoch {
  int epoch = 0;
  double loss = 0;             // mean of the training loss, of all rows; nats per byte
  double validation_loss = 0;  // of all rows that are not trained on
  double bytes_per_s = 0;
  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(epoch), CEREAL_NVP(loss), CEREAL_NVP(validation_loss), CEREAL_NVP(bytes_per_s));
  }
};

/// The mean over all bytes of how unlikely the next one was.
auto loss_of(LanguageModel& model, raytrain::TorchBatch const& batch) -> torch::Tensor {
  auto const text = batch["text"].to(torch::kLong);
  auto const logits = model.forward(text.slice(1, 0, context));
  return torch::nn::functional::cross_entropy(logits.flatten(0, 1), text.slice(1, 1).flatten());
}

// The workers take turns at the batches, so that none of these is left out or counted twice.
auto validation_loss(raytrain::TorchContext& ctx, LanguageModel& model) -> double {
  torch::NoGradGuard const no_grad;
  auto sum = 0.0;
  std::int64_t rows = 0;
  auto shard = ctx.dataset_shard("validation");
  auto const batches = shard.batches({.batch_size = 16, .shuffle = false});
  for (std::size_t i = ctx.world_rank().value; i < batches.size(); i += ctx.world_size().value) {
    sum += loss_of(model, batches[i]).item<double>() * static_cast<double>(batches[i].size());
    rows += batches[i].size();
  }
  return ctx.average(sum / static_cast<double>(rows), rows);
}

void train(raytrain::TorchContext& ctx, Options const& options) {
  auto const precision = raytrain::precision_named(options.precision);
  ModelShape const shape{.checkpoints_layers = options.activation_checkpointing};
  auto model = ctx.prepare_model([&] { return std::make_shared<LanguageModel>(shape); });
  auto optimizer = ctx.prepare_optimizer<torch::optim::AdamW>(model, {options.learning_rate});
  auto shard = ctx.dataset_shard("train");
  auto const batches = static_cast<int>(shard.batches({.batch_size = options.batch_size}).size());
  auto const epoch_steps = (batches + options.accumulate - 1) / options.accumulate;
  auto const steps = epoch_steps * options.epochs;
  raytrain::CosineWithWarmup schedule{optimizer, {.warmup_steps = steps / 10, .steps = steps}};
  raytrain::GradScaler scaler{precision};
  raytrain::TrainingState state{model, optimizer, schedule, scaler, shard};

  for (auto epoch = ctx.restore(state); epoch < options.epochs; ++epoch) {
    auto loss_sum = 0.0;
    std::int64_t rows = 0;  // fewer where it goes on within an epoch
    for (auto const& batch : shard.batches({.batch_size = options.batch_size, .epoch = epoch})) {
      auto const is_last = ctx.accumulate(options.accumulate);
      auto const loss = [&] {
        auto const autocast = ctx.autocast(precision);
        return loss_of(*model, batch);
      }();
      scaler.scale(loss).backward();
      loss_sum += loss.item<double>() * static_cast<double>(batch.size());
      rows += batch.size();
      if (!is_last) continue;
      scaler.unscale(optimizer);
      if (options.clip > 0) torch::nn::utils::clip_grad_norm_(model->parameters(), options.clip);
      scaler.step(optimizer);
      scaler.update();
      schedule.step();
      optimizer.zero_grad();
      auto const next = shard.position();
      auto const all = shard.dataset().rows();
      ctx.progress(all * static_cast<std::size_t>(next.epoch) + next.samples,
                   all * static_cast<std::size_t>(options.epochs),
                   fmt::format("epoch {}, loss {:.3f}", epoch, loss.item<double>()));
      if (ctx.stop_requested()) ctx.hand_over(raytrain::save(state));
    }
    auto const bytes_per_s = ctx.sum(ctx.step_times().samples_per_s) * static_cast<double>(context);
    auto const loss = ctx.average(loss_sum / static_cast<double>(rows), rows);
    ctx.report(Epoch{epoch, loss, validation_loss(ctx, *model), bytes_per_s}, raytrain::save(state));
  }
}

void print_table(raytrain::Result const& result) {
  fmt::print("\n{:>6} {:>9} {:>11} {:>9} {:>10}\n", "epoch", "loss", "validation", "lr", "bytes/s");
  for (auto const& report : result.history) {
    auto const epoch = raytrain::metrics_cast<Epoch>(report.metrics);
    fmt::print("{:>6} {:>9.4f} {:>11.4f} {:>9.2e} {:>10.0f}\n", epoch.epoch, epoch.loss, epoch.validation_loss,
               report.metrics.number("lr").value_or(0), epoch.bytes_per_s);
  }
}

void print_sample(raytrain::Checkpoint const& checkpoint, std::uint64_t seed) {
  auto model = std::make_shared<LanguageModel>();
  raytrain::load(checkpoint, model);
  auto const generator = at::detail::createCPUGenerator(seed);
  auto text = model->go_on("The License", 400, generator);
  // A network that knows little makes bytes that are no text.
  std::ranges::replace_if(
      text, [](unsigned char byte) { return byte != '\n' && (byte < ' ' || byte > '~'); }, '?');
  fmt::print("\nIt goes on from \"The License\":\n\n{}\n", text);
}

auto run(Options const& options) -> int {
  auto const parts = rows_of(read_text(options.text), context);
  auto const job = raytrain::job_environment();
  auto const in_job = job ? raytrain::WorkerCount{job->size.value} : raytrain::WorkerCount{2};
  raytrain::Trainer<raytrain::TorchBackend> trainer{
      train,
      options,
      {.scaling = {.num_workers = options.workers > 0 ? raytrain::WorkerCount{options.workers} : in_job,
                   .resources_per_worker = {.gpus = options.gpus},
                   .use_gpu = options.gpus > 0},
       .run = {.name = "language_model",
               .storage_path = options.storage,
               .checkpoint = {.num_to_keep = 2,
                              .score_attribute = "validation_loss",
                              .score_order = raytrain::ScoreOrder::min},
               .resume = options.fresh ? raytrain::Resume::fresh : raytrain::Resume::automatic,
               .seed = options.seed},
       .datasets = {{"train", parts.train}, {"validation", parts.validation}},
       .callbacks = {std::make_shared<raytrain::ProgressBar>()}}};
  auto const result = trainer.fit();

  auto const speaks = raytrain::is_first_of_job();  // the result is the same on every rank
  if (result.state == raytrain::RunState::aborted) {
    if (speaks) fmt::print("\nStopped. Start it again, and it goes on from there.\n");
    return EX_TEMPFAIL;
  }
  if (speaks) {
    print_table(result);
    print_sample(result.checkpoint().value(), options.seed);
    if (result.nothing_left) {
      fmt::print("\nThis run is finished. --epochs N goes on with more of them; --fresh starts anew.\n");
    }
  }
  auto const loss = result.metrics.number("validation_loss");
  // How often each byte comes gets 3.2 on the licences. Of another text, which may be short, and of more workers, which
  // make fewer steps of an epoch: less than chance.
  auto const workers = options.workers > 0 ? options.workers : job ? static_cast<int>(job->size.value) : 2;
  auto const wanted = options.text == licences_folder && workers <= 2 ? 3.0 : 5.5;
  if (loss && *loss < wanted) return 0;
  if (speaks)
    fmt::print(stderr, "\nThe network has learnt little: its loss is not below {:.1f}. Give it more --epochs.\n",
               wanted);
  return 1;
}

}  // namespace

auto main(int argc, char** argv) -> int {
  auto const options = options_of(argc, argv);
  try {
    return run(options);
  } catch (std::exception const& error) {
    if (raytrain::is_first_of_job()) fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
