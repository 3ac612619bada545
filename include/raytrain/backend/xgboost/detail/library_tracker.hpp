// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <xgboost/c_api.h>
#include <xgboost/version_config.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <raytrain/backend/xgboost/detail/tracker_relay.hpp>
#include <raytrain/backend/xgboost/detail/xgboost_library.hpp>
#include <raytrain/backend/xgboost/xgboost_tracker_options.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/process.hpp>

#if XGBOOST_VER_MAJOR > 2 || (XGBOOST_VER_MAJOR == 2 && XGBOOST_VER_MINOR >= 1)

namespace raytrain::detail {

/// The tracker of XGBoost's library from 2.1 on. It listens at loopback only, behind a relay that lets only workers
/// through. A stranger that connects and sends nothing would block XGBoost's tracker for ever, and one that sends
/// anything but JSON would end it.
///
/// Threads: every function from any thread, but the destructor from none of the events.
class LibraryTracker {
 public:
  /// Listens when it returns.
  ///
  /// Errors: as `RabitListener`'s; `backend`.
  LibraryTracker(XGBoostTrackerOptions const& options, XGBoostTrackerEvents events, std::string secret)
      : tracker_{options}, relay_{options, std::move(events), {tracker_.port(), std::move(secret)}} {}

  [[nodiscard]] auto arguments() const noexcept -> XGBoostWorkerArguments const& { return relay_.arguments(); }

  /// Why the workers could not be brought together.
  [[nodiscard]] auto error() const -> std::optional<Error> { return relay_.error(); }

 private:
  class Handle {
   public:
    explicit Handle(XGBoostTrackerOptions const& options) {
      // The relay looks at the limit; the library's own one comes later, and cuts off nobody.
      auto const limit = std::chrono::ceil<std::chrono::seconds>(options.start_limit) + std::chrono::seconds{60};
      auto const configuration = R"({"dmlc_communicator": "rabit", "host": "127.0.0.1", "port": 0, "sortby": 1, )"
                                 R"("n_workers": )" +
                                 std::to_string(options.world.value) + R"(, "timeout": )" +
                                 std::to_string(limit.count()) + '}';
      BrokenPipeGuard const inherited_by_its_thread;
      xgboost_call(XGTrackerCreate(configuration.c_str(), &handle_), "XGTrackerCreate");
      try {
        xgboost_call(XGTrackerRun(handle_, "{}"), "XGTrackerRun");
        char const* arguments = nullptr;
        xgboost_call(XGTrackerWorkerArgs(handle_, &arguments), "XGTrackerWorkerArgs");
        read_port(arguments);
      } catch (...) {
        XGTrackerFree(handle_);
        throw;
      }
    }
    Handle(Handle const&) = delete;
    auto operator=(Handle const&) -> Handle& = delete;
    /// It fails, and does nothing else wrong, when workers are missing.
    ~Handle() { XGTrackerFree(handle_); }

    [[nodiscard]] auto port() const noexcept -> std::uint16_t { return port_; }

   private:
    void read_port(std::string_view arguments) {
      constexpr std::string_view key = R"("dmlc_tracker_port")";
      auto const digits = arguments.find_first_of("0123456789", std::min(arguments.find(key), arguments.size()));
      if (digits != std::string_view::npos) {
        std::from_chars(arguments.data() + digits, arguments.data() + arguments.size(), port_);
      }
      if (port_ == 0) {
        throw Error{Errc::backend, "XGTrackerWorkerArgs", "no port is in " + std::string{arguments}};
      }
    }

    TrackerHandle handle_ = nullptr;
    std::uint16_t port_ = 0;
  };

  Handle tracker_;
  TrackerRelay relay_;  ///< Last: it ends first, so that the tracker has nobody left to listen to.
};

}  // namespace raytrain::detail

#endif
