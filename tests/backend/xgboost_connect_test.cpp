// SPDX-License-Identifier: Apache-2.0
// What a run says of how XGBoost's workers come together.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include <raytrain/backend/xgboost.hpp>
#include <raytrain/backend/xgboost/xgboost_communicator.hpp>
#include <raytrain/core/bytes.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/thrown_error.hpp"
#include "tracker_ends.hpp"
#include "xgboost_run.hpp"
#include "xgboost_workers.hpp"

namespace {

using namespace raytrain;
using namespace raytrain::testing;

/// Runs two distributed workers, of which rank 1 does `work` with what it needs to find rank 0, and rank 0 connects.
template <class Work>
auto connect_with(TemporaryFolder const& folder, Work const& work) -> Result {
  return XGBoostTrainer{[&](XGBoostContext& ctx) {
                          if (ctx.world_rank() == Rank{0}) return ctx.connect();
                          work(ctx, ctx.broadcast(XGBoostWorkerArguments{}));  // as `connect` does
                        },
                        config(folder, 2, XGBoostMode::distributed)}
      .fit();
}

TEST_CASE("a stranger that connects while XGBoost's workers come together is warned of, and changes nothing") {
  TemporaryFolder const folder;
  auto const result = connect_with(folder, [](XGBoostContext& ctx, XGBoostWorkerArguments const& arguments) {
    {
      RawPeer const stranger{address_of(arguments)};
      stranger.send(bytes_of(std::string_view{"GET / HTTP/1.1\r\n\r\n"}));
      CHECK(stranger.is_closed());
    }
    ctx.barrier();
    XGBoostCommunicator const communicator{arguments, ctx.world_rank()};
  });
  CHECK(result.state == RunState::finished);
  CHECK(std::ranges::count_if(result.warnings, [](std::string const& text) {
          return text.find("XGBoost's tracker: tcp:127.0.0.1:") != std::string::npos &&
                 text.find("sent something else than rabit's magic number") != std::string::npos;
        }) == 1);
}

TEST_CASE("a run whose workers of XGBoost do not find each other ends with the tracker's reason" *
          doctest::skip(library_tracks)) {
  TemporaryFolder const folder;
  check_contains(thrown_error([&] {
                   connect_with(folder, [](XGBoostContext& ctx, XGBoostWorkerArguments const& arguments) {
                     auto const number = [](std::int32_t value) {
                       std::string raw(sizeof value, '\0');
                       std::memcpy(raw.data(), &value, sizeof value);
                       return raw;
                     };
                     auto const text = [&](std::string const& of) {
                       return number(static_cast<std::int32_t>(of.size())) + of;
                     };
                     {
                       RawPeer const worker{address_of(arguments)};
                       worker.send(bytes_of(number(0xff99) + number(-1) + number(-1) +
                                            text(arguments.task_id(ctx.world_rank())) + text("start")));
                       CHECK(worker.read(4).size() == 4);  // it is taken for rank 1
                     }
                     ctx.barrier();
                   });
                 }),
                 "bringing XGBoost's workers together: the connection of rank 1 ended: its process was killed");
}

}  // namespace
