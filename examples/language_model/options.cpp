// SPDX-License-Identifier: Apache-2.0
// Apart from the training, which is compiled sooner without the parser's headers.
#include "options.hpp"

#include <cstdlib>

#include <CLI/CLI.hpp>

auto options_of(int argc, char** argv) -> Options {
  Options options;
  CLI::App app{"Trains a small transformer on text, and lets it write. Run again, it goes on where it was stopped."};
  app.option_defaults()->always_capture_default();
  app.add_option("--text", options.text, "file, or folder of files, to learn from");
  app.add_option("--workers", options.workers, "threads that train together; 0: 2, or the ranks of the job")
      ->check(CLI::Range(0, 4096));
  app.add_option("--gpus", options.gpus,
                 "of each worker, or a part of one that workers share, as 0.5: ScalingConfig::use_gpu; 0: the CPU")
      ->check(CLI::Range(0.0, 64.0));
  app.add_option("--epochs", options.epochs, "passes over the text")->check(CLI::Range(1, 1'000'000));
  app.add_option("--batch-size", options.batch_size, "rows of 128 bytes per worker and batch")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--accumulate", options.accumulate, "batches of a worker in each step")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--clip", options.clip, "largest norm of the gradient; 0: any")->check(CLI::Range(0.0, 1e6));
  app.add_option("--precision", options.precision, "in which the network computes")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}));
  app.add_flag("--activation-checkpointing", options.activation_checkpointing,
               "compute activations again in backward, and keep fewer: raytrain::activation_checkpoint");
  app.add_option("--learning-rate", options.learning_rate, "of AdamW, after the warm-up")
      ->check(CLI::Range(1e-12, 1e3));
  app.add_option("--seed", options.seed, "everything random follows from it: RunConfig::seed");
  app.add_option("--storage", options.storage, "folder for the run's reports and checkpoints: RunConfig::storage_path");
  app.add_flag("--fresh", options.fresh, "delete the run that is there, and start anew: Resume::fresh");
  try {
    app.parse(argc, argv);
  } catch (CLI::ParseError const& end) {
    std::exit(app.exit(end));
  }
  return options;
}
