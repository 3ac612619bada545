// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <functional>
#include <new>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/dataset.hpp>
#include <raytrain/data/detail/join_rows.hpp>
#include <raytrain/data/detail/made_in_order.hpp>
#include <raytrain/data/map_batches.hpp>

namespace raytrain {

RAYTRAIN_INLINE void MapBatchesOptions::validate() const {
  if (batch_size < 1) {
    throw Error{Errc::invalid_config, "MapBatchesOptions::batch_size", "must be at least 1 (got 0)",
                "write {.batch_size = 4096}"};
  }
  if (threads < 1) {
    throw Error{Errc::invalid_config, "MapBatchesOptions::threads", fmt::format("must be at least 1 (got {})", threads),
                "write {.threads = 1} for the caller's own thread"};
  }
}

RAYTRAIN_INLINE auto map_batches(Dataset const& dataset, std::function<Dataset(Dataset const& batch)> const& function,
                                 MapBatchesOptions const& options) -> Dataset {
  options.validate();
  auto const batches = dataset.rows() / options.batch_size + (dataset.rows() % options.batch_size == 0 ? 0 : 1);
  auto const make = [&](std::size_t index) {
    auto const first = index * options.batch_size;
    auto const size = std::min(options.batch_size, dataset.rows() - first);
    auto const attempted = [&] {
      return size == 0 ? "map_batches of no rows" : fmt::format("map_batches, rows {} to {}", first, first + size - 1);
    };
    try {
      return function(dataset.split_at(first).second.head(size));
    } catch (NotRetryable const& error) {
      throw NotRetryable{attempted() + ": " + error.attempted(), error.happened(), error.remedy()};
    } catch (Error const& error) {
      throw Error{error.code(), attempted() + ": " + error.attempted(), error.happened(), error.remedy()};
    } catch (Stopped const&) {
      throw;
    } catch (std::bad_alloc const&) {
      throw;
    } catch (std::exception const& error) {
      throw Error{Errc::exception, attempted(), error.what()};
    }
  };
  if (dataset.rows() == 0 && !dataset.columns().empty()) return make(0);
  auto const results = detail::made_in_order<Dataset>(batches, options.threads, make);
  return detail::join_rows(results, "map_batches");
}

}  // namespace raytrain
