// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <utility>

#include <raytrain/core/inline.hpp>
#include <raytrain/data/data_paths.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/detail/libsvm_table.hpp>
#include <raytrain/data/detail/line_reader.hpp>
#include <raytrain/data/libsvm.hpp>

namespace raytrain {

RAYTRAIN_INLINE auto read_libsvm(DataPaths const& paths, LibsvmOptions const& options) -> Dataset {
  detail::LibsvmTable table{options};
  for (auto const& path : paths.files()) {
    table.begin_file(fmt::format("read LIBSVM file '{}'", path.string()));
    detail::LineReader lines{path};
    while (auto const line = lines.next()) table.add_line(*line, lines.number());
  }
  return std::move(table).take();
}

}  // namespace raytrain
