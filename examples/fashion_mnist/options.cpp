// SPDX-License-Identifier: Apache-2.0
// Apart from the training, which is compiled sooner without the parser's headers.
#include "options.hpp"

#include <cstdlib>
#include <string>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

namespace {

/// What CLI11 says itself of a number out of range names the largest one that there is.
auto between(double least, double most) -> CLI::Validator {
  return {[=](std::string const& text) {
            auto const value = std::strtod(text.c_str(), nullptr);
            auto const right = value >= least && value <= most;
            return right ? std::string{} : fmt::format("must be from {} to {} (got {})", least, most, text);
          },
          ""};
}

auto is_count() -> CLI::Validator {
  return {[](std::string const& text) {
            auto const is_number = [](std::string const& part) {
              return !part.empty() && part.size() < 5 && part.find_first_not_of("0123456789") == std::string::npos;
            };
            auto const colon = text.find(':');
            auto const right = colon == std::string::npos
                                   ? is_number(text)
                                   : is_number(text.substr(0, colon)) && is_number(text.substr(colon + 1));
            return right ? std::string{}
                         : fmt::format("must be a number, or the fewest and the most as 1:4 (got {})", text);
          },
          ""};
}

}  // namespace

auto count_in(std::string const& text) -> raytrain::WorkerCount {
  if (text == "0") return {};
  auto const colon = text.find(':');
  auto const fewest = std::atoll(text.c_str());
  if (colon == std::string::npos) return fewest;
  return {fewest, std::atoll(text.c_str() + colon + 1)};
}

auto options_of(int argc, char** argv) -> Options {
  Options options;
  CLI::App app{"Trains a network on Fashion-MNIST. Run again, it goes on from its newest checkpoint."};
  app.option_defaults()->always_capture_default();
  app.add_option("--data", options.data, "folder with the four files of Fashion-MNIST, gzip");
  app.add_option("--model", options.model, "conv has dropout")->check(CLI::IsMember({"mlp", "conv", "resnet18"}));
  app.add_option("--samples", options.samples, "training images to use, the first ones")->check(between(1, 1e6));
  auto* const workers =
      app.add_option("--workers", options.workers,
                     "threads that train together; 1:4: from 1 to 4, SIGUSR1 makes it one more, SIGUSR2 one fewer: "
                     "ScalingConfig::num_workers; 0: 2, or the ranks of the job")
          ->check(is_count());
  auto* const virtual_shards =
      app.add_option("--virtual-shards", options.virtual_shards,
                     "parts of each step, of --batch-size images: the same parameters with any number of workers up to "
                     "it: ScalingConfig::virtual_shards; 0: one part for each worker")
          ->check(between(0, 4096));
  app.add_option("--gpus", options.gpus,
                 "of each worker, or a part of one that workers share, as 0.5: ScalingConfig::use_gpu; 0: the CPU")
      ->check(between(0, 64));
  app.add_option("--epochs", options.epochs, "passes over the training images")->check(between(1, 1e6));
  app.add_option("--patience", options.patience,
                 "end after so many epochs in a row without a better test accuracy: EarlyStopping; 0: never")
      ->check(between(0, 1e6));
  app.add_option("--batch-size", options.batch_size, "images per worker, or virtual shard, and step")
      ->check(between(1, 1e6));
  app.add_option("--accumulate", options.accumulate,
                 "batches of each worker whose gradients are averaged once, for one step: TorchContext::accumulate")
      ->check(between(1, 1e6))
      ->excludes(virtual_shards);
  app.add_option("--clip", options.clip, "largest norm of the averaged gradient: clip_grad_norm_; 0: any")
      ->check(between(0, 1e12));
  app.add_option("--precision", options.precision, "in which the network computes: TorchContext::autocast")
      ->check(CLI::IsMember({"fp32", "bf16"}));
  app.add_option("--compression", options.compression, "of gradients between workers: ModelOptions::exchange")
      ->check(CLI::IsMember({"none", "bf16", "fp16", "power_sgd"}))
      ->excludes(virtual_shards);
  app.add_option("--overlap", options.overlap,
                 "exchange gradients while the backward computes others: ModelOptions::overlap")
      ->check(CLI::IsMember({"off", "on", "measured"}))
      ->excludes(virtual_shards);
  app.add_flag("--augment", options.augment, "train on images that are randomly shifted, mirrored and given noise");
  app.add_option("--data-threads", options.data_threads,
                 "threads of each worker that prepare batches ahead: TorchBatchRange::map; 0: none")
      ->check(between(0, 64));
  app.add_option("--learning-rate", options.learning_rate, "of Adam")->check(between(1e-12, 1e3));
  app.add_option("--seed", options.seed, "everything random follows from it: RunConfig::seed")->check(between(0, 1e15));
  auto* const processes =
      app.add_flag("--processes", options.processes,
                   "workers are processes of this host: a crash costs one of them, not the program");
  auto* const ranks =
      app.add_option(
             "--ranks", options.ranks,
             "workers are so many ranks of an MPI job that this program starts, and starts again by --max-failures")
          ->check(is_count())
          ->excludes(processes, workers);
  app.add_option("--hosts", options.hosts, "host file of --ranks; with --ranks 2:4 as many train as it has slots for")
      ->needs(ranks);
  app.add_option("--max-failures", options.max_failures,
                 "so often workers are started again after one has failed; -1: always: FailureConfig::max_failures")
      ->check(between(-1, 1e6));
  app.add_option("--storage", options.storage, "folder for the run's reports and checkpoints: RunConfig::storage_path");
  app.add_flag("--fresh", options.fresh, "delete the run that is there, and start anew: Resume::fresh");
  try {
    app.parse(argc, argv);
  } catch (CLI::ParseError const& end) {
    std::exit(app.exit(end));
  }
  return options;
}
