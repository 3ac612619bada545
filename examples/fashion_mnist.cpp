// Trains a network on Fashion-MNIST with two workers, or with as many as there are at any time, and resumes where it
// was stopped, however it was stopped. It shows most options of LibTorch's backend at once: linear_regression.cpp and
// adult_income.cpp are shorter. Run ./examples/run fashion_mnist (--help lists the options); expect 88 % test accuracy
// or more after 10 epochs. On ranks it needs <raytrain/launch/ranks.hpp>, too: the build adds ranks/ranks.cpp.
#include <sysexits.h>

#include <exception>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <raytrain/backend/torch.hpp>
#include <raytrain/callback/progress_bar.hpp>
#include <raytrain/trainer.hpp>

#include "fashion_mnist/augmentation.hpp"
#include "fashion_mnist/data.hpp"
#include "fashion_mnist/networks.hpp"
#include "fashion_mnist/options.hpp"

namespace {

struct Epoch {
  int epoch = 0;
  double loss = 0;      // mean of the training loss, of all images
  double accuracy = 0;  // share of the test images that are recognised
  double samples_per_s = 0;
  template <class A>
  void serialize(A& a) {
    a(CEREAL_NVP(epoch), CEREAL_NVP(loss), CEREAL_NVP(accuracy), CEREAL_NVP(samples_per_s));
  }
};

struct Prepared {
  torch::Tensor images;
  torch::Tensor labels;
  bool is_padding = false;
};

// "test" is not split, so each worker has all test images. Of two workers one takes the batches 0, 2, 4 ..., the other
// one 1, 3, 5 ..., so that each image counts once.
auto test_accuracy(raytrain::TorchContext& ctx, Network& network) -> double {
  torch::NoGradGuard const no_grad;
  network.eval();
  auto right = 0.0, all = 0.0;
  auto shard = ctx.dataset_shard("test");
  auto const batches = shard.batches({.batch_size = 250, .shuffle = false});
  for (std::size_t i = ctx.world_rank().value; i < batches.size(); i += ctx.world_size().value) {
    auto const labels = batches[i]["label"].to(torch::kLong);
    right += network.forward(standardized(batches[i]["image"])).argmax(1).eq(labels).sum().item<double>();
    all += static_cast<double>(batches[i].size());
  }
  network.train();
  return ctx.sum(right) / ctx.sum(all);
}

void train(raytrain::TorchContext& ctx, Options const& options) {
  auto const power_sgd = options.compression == "power_sgd" ? std::make_shared<raytrain::PowerSGD>() : nullptr;
  raytrain::ModelOptions exchange{.exchange = power_sgd, .overlap = raytrain::overlap_named(options.overlap)};
  if (!power_sgd) exchange.exchange = raytrain::compressed(raytrain::compression_named(options.compression));
  auto model = ctx.prepare_model([&] { return make_network(options.model); }, exchange);
  // Each worker keeps a part of Adam's state. torch::optim::Adam{model->parameters(), ...} would do as well.
  auto optimizer = ctx.prepare_optimizer<torch::optim::Adam>(model, {options.learning_rate});
  raytrain::EarlyStopping stopping{{.patience = options.patience, .mode = raytrain::ScoreOrder::max}};
  auto shard = ctx.dataset_shard("train");
  using State = raytrain::TrainingState;
  State state = power_sgd ? State{model, optimizer, stopping, shard, {"power_sgd", power_sgd->state()}}
                          : State{model, optimizer, stopping, shard};
  auto const precision = raytrain::precision_named(options.precision);
  auto epoch = ctx.restore(state);
  // The checkpoint has brought its rate, and the option counts.
  for (auto& group : optimizer.param_groups()) group.options().set_lr(options.learning_rate);
  auto const prepared = [&](raytrain::TorchBatch const& batch, at::Generator& random) {
    auto images = batch["image"];
    if (options.augment) images = augmented(images, random);
    return Prepared{standardized(images), batch["label"].to(torch::kLong), batch.is_padding()};
  };
  auto const epoch_samples = shard.dataset().rows();
  auto const all_samples = epoch_samples * static_cast<std::size_t>(options.epochs);

  for (; epoch < options.epochs && !stopping.is_over(); ++epoch) {
    std::int64_t samples = 0;  // fewer where it goes on within an epoch
    auto loss_sum = 0.0;
    for (auto const& batch : shard.batches({.batch_size = options.batch_size, .epoch = epoch})
                                 .map(prepared, {.threads = options.data_threads})) {
      auto const is_last = ctx.accumulate(options.accumulate);  // of several batches, or virtual shards, of a step
      optimizer.zero_grad();
      auto const loss = [&] {
        auto const autocast = ctx.autocast(precision);
        return torch::nll_loss(model->forward(batch.images.to(ctx.device(), true)),
                               batch.labels.to(ctx.device(), true));
      }();
      loss.backward();
      auto const value = loss.item<double>();
      if (!batch.is_padding) {
        loss_sum += value * static_cast<double>(batch.labels.size(0));
        samples += batch.labels.size(0);
      }
      if (!is_last) continue;
      if (options.clip > 0) torch::nn::utils::clip_grad_norm_(model->parameters(), options.clip);
      optimizer.step();
      auto const next = shard.position();
      ctx.progress(epoch_samples * static_cast<std::size_t>(next.epoch) + next.samples, all_samples,
                   fmt::format("epoch {}, loss {:.3f}", epoch, value));
      if (ctx.stop_requested()) ctx.hand_over(raytrain::save(state));
    }
    auto const samples_per_s = ctx.sum(ctx.step_times().samples_per_s);
    auto const loss = ctx.average(loss_sum / static_cast<double>(samples), samples);
    auto const accuracy = test_accuracy(ctx, *model);
    stopping.step(ctx, accuracy);
    ctx.report(Epoch{epoch, loss, accuracy, samples_per_s}, raytrain::save(state));
  }
}

void print_table(raytrain::Result const& result) {
  fmt::print("\n{:>6} {:>9} {:>10} {:>10}\n", "epoch", "loss", "accuracy", "samples/s");
  for (auto const& report : result.history) {
    auto const epoch = raytrain::metrics_cast<Epoch>(report.metrics);
    fmt::print("{:>6} {:>9.4f} {:>8.2f} % {:>10.0f}\n", epoch.epoch, epoch.loss, 100 * epoch.accuracy,
               epoch.samples_per_s);
  }
  if (auto const best = result.best_checkpoint("accuracy", raytrain::ScoreOrder::max)) {
    fmt::print("\nbest checkpoint  {} ({:.2f} %)\n", best->path().string(), 100 * *best->metrics().number("accuracy"));
  }
  fmt::print("reports          {}\n", (result.path / "progress.jsonl").string());
}

auto run(Options const& options) -> int {
  // The files of the test are read beside those of the training.
  auto test = std::async(std::launch::async, [&] { return read_fashion_mnist(options.data, "t10k"); });
  auto const training = read_fashion_mnist(options.data, "train");
  auto const job = raytrain::job_environment();
  auto const in_job = job ? raytrain::WorkerCount{job->size.value} : raytrain::WorkerCount{2};
  auto const ranks = count_in(options.ranks);
  auto const threads = count_in(options.workers);
  auto const workers = ranks.is_set() ? ranks : threads.is_set() ? threads : in_job;
  auto const samples = std::min(static_cast<std::size_t>(options.samples), training.rows());

  raytrain::Trainer<raytrain::TorchBackend> trainer{
      train,
      options,
      {.scaling = {.num_workers = workers,
                   .launch = options.processes ? raytrain::Launch::processes
                             : ranks.is_set()  ? raytrain::Launch::mpirun
                                               : raytrain::Launch::automatic,
                   .resources_per_worker = {.gpus = options.gpus},
                   .use_gpu = options.gpus > 0,
                   .virtual_shards = options.virtual_shards,
                   .job_command = options.hosts.empty()
                                      ? std::vector<std::string>{"mpirun"}
                                      : std::vector<std::string>{"mpirun", "--hostfile", options.hosts.string()}},
       .run = {.name = "fashion_mnist_" + options.model,
               .storage_path = options.storage,
               .checkpoint = {.num_to_keep = 2, .score_attribute = "accuracy"},
               .failure = {.max_failures = options.max_failures},
               .resume = options.fresh ? raytrain::Resume::fresh : raytrain::Resume::automatic,
               .seed = options.seed},
       .datasets = {{"train", training.head(samples)}, {"test", test.get()}},
       .callbacks = {std::make_shared<raytrain::ProgressBar>()}}};
  auto const result = trainer.fit();

  auto const speaks = raytrain::is_first_of_job();  // the result is the same on every rank
  if (speaks) print_table(result);
  if (result.state == raytrain::RunState::aborted) {
    if (speaks) fmt::print("\nStopped. Start it again, and it goes on from there.\n");
    return EX_TEMPFAIL;
  }
  if (result.nothing_left && speaks) {
    fmt::print(
        "\nThis run is finished. --epochs N goes on with more of them, as --patience does after an early end; --fresh "
        "starts anew.\n");
  }
  auto const accuracy = result.metrics.number("accuracy");
  auto const wanted =
      samples < 60'000 ? 0.1 : 0.6;  // of few images it may learn little more than chance, which gets 0.1
  if (accuracy && *accuracy > wanted) return 0;
  if (speaks) {
    fmt::print(stderr, "\nThe network recognises no more than {:.0f} %: give it more {}--epochs.\n", 100 * wanted,
               samples < 60'000 ? "--samples or " : "");
  }
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
