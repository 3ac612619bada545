// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <xgboost/c_api.h>
#include <xgboost/version_config.h>

#include <chrono>
#include <string>
#include <utility>

#include <raytrain/backend/xgboost/detail/xgboost_library.hpp>
#include <raytrain/backend/xgboost/xgboost_tracker_options.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/process.hpp>

namespace raytrain {

/// Makes a thread one of the workers that train a model of XGBoost together.
///
/// XGBoost keeps all that belongs to a worker for each thread: everything that is to be distributed, data matrices too,
/// is made, used and destroyed on this thread while this exists. A thread has one at a time.
///
/// When another worker dies, calls that exchange something fail within a second. When one hangs, they fail after the
/// timeout.
///
/// Threads: one, from construction to destruction.
class XGBoostCommunicator {
 public:
  /// Waits until all workers are here, for as long as the tracker does.
  ///
  /// Errors: `backend` when the tracker cannot be reached or gives up, which it says why; `rank_mismatch` when XGBoost
  ///         has other ranks than raytrain.
  XGBoostCommunicator(XGBoostWorkerArguments const& arguments, Rank rank,
                      std::chrono::seconds timeout = std::chrono::seconds{1800})
      : rank_{rank}, size_{arguments.world} {
    auto const status = XGCommunicatorInit(configuration(arguments, rank, timeout).c_str());
    Initialized initialized;
    detail::xgboost_call(status, "XGCommunicatorInit on rank " + std::to_string(rank.value),
                         "see what the tracker says of it");
    auto const found_size = XGCommunicatorGetWorldSize();
    auto const found_rank = XGCommunicatorGetRank();
    if (found_size != static_cast<int>(size_.value) || found_rank != static_cast<int>(rank.value)) {
      throw Error{Errc::rank_mismatch, "XGCommunicatorInit on rank " + std::to_string(rank.value),
                  "XGBoost says that it is rank " + std::to_string(found_rank) + " of " + std::to_string(found_size) +
                      ", and it is rank " + std::to_string(rank.value) + " of " + std::to_string(size_.value),
                  "let this version of XGBoost find its tracker"};
    }
    initialized.keep();
  }
  XGBoostCommunicator(XGBoostCommunicator const&) = delete;
  auto operator=(XGBoostCommunicator const&) -> XGBoostCommunicator& = delete;

  /// Leaves the others wherever they are, and waits for none of them.
  ~XGBoostCommunicator() {
    if (!ended_) XGCommunicatorFinalize();
  }

  /// Says goodbye to the tracker, when all are done.
  ///
  /// Errors: `backend` when it is not there any more.
  void finalize() {
    if (std::exchange(ended_, true)) return;
    detail::xgboost_call(XGCommunicatorFinalize(), "XGCommunicatorFinalize on rank " + std::to_string(rank_.value));
  }

  [[nodiscard]] auto rank() const noexcept -> Rank { return rank_; }
  [[nodiscard]] auto size() const noexcept -> WorldSize { return size_; }

 private:
  /// Undoes what has been done of XGCommunicatorInit.
  class Initialized {
   public:
    Initialized() = default;
    Initialized(Initialized const&) = delete;
    auto operator=(Initialized const&) -> Initialized& = delete;
    ~Initialized() {
      if (!kept_) XGCommunicatorFinalize();
    }
    void keep() noexcept { kept_ = true; }

   private:
    bool kept_ = false;
  };

  /// XGBoost ignores keys that it does not know, and 1.7 and 2.0 tell capital letters from small ones.
  static auto configuration(XGBoostWorkerArguments const& arguments, Rank rank, std::chrono::seconds timeout)
      -> std::string {
    auto const quoted = [](std::string const& text) { return '"' + text + '"'; };
    auto const host = quoted(arguments.host);
    auto const port = std::to_string(arguments.port);
    auto const task = quoted(arguments.task_id(rank));
    auto const seconds = std::to_string(timeout.count());
#if XGBOOST_VER_MAJOR > 2 || (XGBOOST_VER_MAJOR == 2 && XGBOOST_VER_MINOR >= 1)
    return R"({"dmlc_communicator": "rabit", "dmlc_tracker_uri": )" + host + R"(, "dmlc_tracker_port": )" + port +
           R"(, "dmlc_task_id": )" + task + R"(, "dmlc_retry": 1, "dmlc_timeout": )" + seconds + '}';
#else
    return R"({"xgboost_communicator": "rabit", "DMLC_TRACKER_URI": )" + host + R"(, "DMLC_TRACKER_PORT": )" + port +
           R"(, "DMLC_TASK_ID": )" + task +
           R"(, "DMLC_WORKER_CONNECT_RETRY": 1, "rabit_enable_tcp_no_delay": "true", "rabit_timeout": true, )" +
           R"("rabit_timeout_sec": )" + seconds + '}';
#endif
  }

  BrokenPipeGuard broken_pipe_;  // XGBoost writes as if no worker could die
  Rank rank_;
  WorldSize size_;
  bool ended_ = false;
};

}  // namespace raytrain
