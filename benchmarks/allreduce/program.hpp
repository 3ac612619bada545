// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <exception>
#include <functional>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <raytrain/core/identifiers.hpp>

#include "measurement.hpp"
#include "options.hpp"
#include "plot.hpp"
#include "report.hpp"

/// What raytrain's program and its twins have in common: the command line, and what they report.

/// Measures every size on one rank. Rank 0 prints.
template <class C>
auto run_rank(C& collective, Options const& options) -> std::vector<Row> {
  std::vector<Row> rows;
  for (auto const bytes : options.all_sizes()) {
    rows.push_back(measure_type(collective, options, bytes));
    if (collective.rank() == raytrain::Rank{0}) print_row(rows.back(), options);
  }
  return rows;
}

/// Writes what the options ask for; the exit status, which says whether all results were right.
inline auto conclude(std::vector<Row> const& rows, Setting const& setting, Options const& options) -> int {
  if (!options.json.empty()) write_file(options.json, to_json(rows, setting, options));
  if (!options.plot.empty()) write_file(options.plot, Plot{rows}.svg(setting, options));
  auto const wrong = std::count_if(rows.begin(), rows.end(), [](Row const& row) { return row.wrong != 0; });
  if (wrong == 0) return 0;
  fmt::print(stderr, "{} of {} sizes gave a wrong result\n", wrong, rows.size());
  return 1;
}

/// What contests take too.
inline void add_contest_options(CLI::App& app, Options& options) {
  app.option_defaults()->always_capture_default();
  app.add_option("--min", options.min_bytes, "smallest array, in bytes; K, M and G are accepted")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::PositiveNumber);
  app.add_option("--max", options.max_bytes, "largest array")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::PositiveNumber);
  app.add_option("--factor", options.factor, "from one size to the next")->check(CLI::Range(2, 1024));
  app.add_option("--sizes", options.sizes_bytes, "these arrays instead, as in 64,8K,1M")
      ->delimiter(',')
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::PositiveNumber);
  app.add_option("--seconds", options.seconds, "time for each size")->check(CLI::PositiveNumber);
  app.add_option("--warm-up", options.warm_up, "iterations that are not measured")->check(CLI::PositiveNumber);
  app.add_option("--json", options.json, "file for the rows");
}

inline void add_options(CLI::App& app, Options& options) {
  app.add_option("--collective", options.collective)
      ->check(CLI::IsMember({"all_reduce", "broadcast", "all_gather", "reduce_scatter", "barrier"}));
  app.add_option("--type", options.type)
      ->check(CLI::IsMember({"float32", "float64", "float16", "bfloat16", "int8", "int32", "int64", "uint8"}));
  app.add_option("--op", options.op)->check(CLI::IsMember({"sum", "average", "min", "max", "product"}));
  app.add_option("--memory", options.memory, "arrays from the collective's allocate, or the program's own")
      ->check(CLI::IsMember({"allocated", "own"}));
  app.add_option("--iterations", options.iterations, "of each size; 0: as many as fit into --seconds")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--check,!--no-check", options.check, "count wrong elements in each size's last iteration");
  app.add_option("--plot", options.plot, "SVG file for a drawing of bus bandwidth over size");
  add_contest_options(app, options);
}

/// Parses the command line and calls `run`; the exit status.
inline auto run_program(CLI::App& app, Options& options, int argc, char** argv, std::function<int()> const& run)
    -> int {
  try {
    app.parse(argc, argv);
    if (options.collective == "barrier") {
      if (!options.plot.empty()) throw CLI::ValidationError{"--plot", "a barrier has no size to draw"};
      options.sizes_bytes = {0};
    }
    if (options.max_bytes < options.min_bytes) {
      throw CLI::ValidationError{"--max", fmt::format("{} is below --min {}", options.max_bytes, options.min_bytes)};
    }
    return run();
  } catch (CLI::Error const& error) {
    return app.exit(error);
  } catch (std::exception const& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
