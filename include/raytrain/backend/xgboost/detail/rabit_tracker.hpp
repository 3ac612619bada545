// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <raytrain/backend/xgboost/detail/rabit_listener.hpp>
#include <raytrain/backend/xgboost/detail/rabit_wire.hpp>
#include <raytrain/backend/xgboost/detail/tracker_report.hpp>
#include <raytrain/backend/xgboost/xgboost_tracker_options.hpp>
#include <raytrain/core/bytes.hpp>
#include <raytrain/core/clock.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/exec/channel.hpp>
#include <raytrain/exec/deadline.hpp>
#include <raytrain/exec/executor.hpp>
#include <raytrain/exec/scope.hpp>
#include <raytrain/exec/sockets.hpp>

namespace raytrain::detail {

/// The workers to which one of XGBoost 1.7 or 2.0 connects: its neighbours in a binary tree, along which XGBoost sums
/// small arrays, and in a ring in rank order, along which it sums large ones.
struct RabitLinks {
  std::int32_t parent = -1;            ///< -1 for the tree's root.
  std::vector<std::int32_t> tree{};    ///< Parent and children.
  std::int32_t previous = -1;          ///< In the ring; -1 where it is alone.
  std::int32_t next = -1;              ///< In the ring; -1 where it is alone.
  std::set<std::int32_t> everybody{};  ///< All of these.
};

[[nodiscard]] inline auto rabit_links(Rank rank, WorldSize world) -> RabitLinks {
  auto const own = static_cast<std::int32_t>(rank.value);
  auto const size = static_cast<std::int32_t>(world.value);
  RabitLinks links;
  if (own > 0) {
    links.parent = (own - 1) / 2;
    links.tree.push_back(links.parent);
  }
  for (auto const child : {2 * own + 1, 2 * own + 2}) {
    if (child < size) links.tree.push_back(child);
  }
  links.everybody.insert(links.tree.begin(), links.tree.end());
  if (size > 1) {
    links.previous = (own + size - 1) % size;
    links.next = (own + 1) % size;
    links.everybody.insert({links.previous, links.next});
  }
  return links;
}

/// The tracker of XGBoost 1.7 and 2.0, whose library has none: gives workers their ranks, tells each one its
/// neighbours, and counts those that have ended.
///
/// Threads: every function from any thread, but `close` and the destructor from none of the events. One thread of its
///          own does all the work.
/// Source:  the rabit protocol, as XGBoost 1.7's Python tracker speaks it.
class RabitTracker {
 public:
  /// Listens when it returns.
  ///
  /// Errors: as `RabitListener`'s.
  RabitTracker(XGBoostTrackerOptions options, XGBoostTrackerEvents events, std::string secret)
      : options_{std::move(options)},
        report_{std::move(events)},
        listener_{executor_,
                  {RabitForm::numbers, options_.address, options_.greeting_timeout, options_.max_strangers},
                  {.on_greeting = [this](RabitGreeting greeting,
                                         SocketStream stream) { welcome(std::move(greeting), std::move(stream)); },
                   .on_stranger = [this](std::string text) { report_.tell_stranger(std::move(text)); }}},
        arguments_{options_.address, listener_.port(), options_.world.value, std::move(secret)},
        workers_(options_.world.value) {
    thread_ = std::thread{[this] { executor_.run(serve()); }};
  }
  RabitTracker(RabitTracker const&) = delete;
  auto operator=(RabitTracker const&) -> RabitTracker& = delete;
  ~RabitTracker() { close(); }

  [[nodiscard]] auto arguments() const noexcept -> XGBoostWorkerArguments const& { return arguments_; }

  /// Why the workers could not be brought together.
  [[nodiscard]] auto error() const -> std::optional<Error> { return report_.error(); }

  /// Closes all connections and ends, wherever the workers are. Idempotent.
  void close() {
    std::lock_guard const lock{close_mutex_};
    if (!thread_.joinable()) return;
    end_.close();
    thread_.join();
  }

 private:
  enum class Phase { gathering, linking, running, failed };

  /// One for each rank.
  struct Worker {
    std::optional<SocketStream> stream{};  ///< Until it is connected with the others.
    std::string host{};
    std::int32_t port = 0;    ///< Where it waits for others to connect; 0 before.
    std::size_t awaited = 0;  ///< How many are still to connect to it.
    bool taken = false;
    bool ended = false;
  };

  [[nodiscard]] auto now() const -> Clock::TimePoint { return executor_.clock().now(); }

  auto serve() -> asio::awaitable<void> {
    Scope work{executor_};
    work.spawn(listener_.serve());
    work.spawn(rendezvous());
    co_await end_.receive();
    work.cancel();
    co_await work.join();
    for (auto& worker : workers_) worker.stream.reset();
  }

  auto rendezvous() -> asio::awaitable<void> {
    auto const deadline = now() + options_.start_limit;
    try {
      bool const in_time = co_await finish_by(executor_, deadline, gather_and_link());
      if (!in_time) fail(lateness());
    } catch (Error const& error) {
      fail(error);
    }
    if (phase_ == Phase::failed) {
      auto const soon = now() + release_limit;
      co_await finish_by(executor_, soon, release_all());
    }
  }

  auto gather_and_link() -> asio::awaitable<void> {
    co_await gather();
    phase_ = Phase::linking;
    for (std::size_t rank = 0; rank < workers_.size(); ++rank) co_await link(rank);
    phase_ = Phase::running;
  }

  /// Returns when all workers are here.
  auto gather() -> asio::awaitable<void> {
    Scope scope{executor_};
    waiting_ = &scope;
    scope.spawn(end_when_gathered(scope));
    try {
      co_await scope.join();
    } catch (...) {
      waiting_ = nullptr;
      throw;
    }
    waiting_ = nullptr;
  }

  auto end_when_gathered(Scope& scope) -> asio::awaitable<void> {
    co_await gathered_.receive();
    if (fault_) throw Error{*fault_};
    scope.cancel();
  }

  /// A worker has nothing to say before all are here.
  auto watch(std::size_t rank) -> asio::awaitable<void> {
    Bytes buffer(1);
    std::string why = TrackerReport::ended;
    try {
      auto const count = co_await workers_[rank].stream->read_some(buffer);
      if (count > 0) why = "brought something that nobody has asked for";
    } catch (std::system_error const& error) {
      if (error.code().value() == ECANCELED) throw;
      why = TrackerReport::broken(error.code());
    }
    throw TrackerReport::lost(rank, why);
  }

  /// Ranks are connected one after the other, each with those before it.
  auto link(std::size_t rank) -> asio::awaitable<void> {
    auto& worker = workers_[rank];
    auto const links = rabit_links(Rank{static_cast<std::uint32_t>(rank)}, options_.world);
    RabitWriter answer;
    answer.add(static_cast<std::int32_t>(rank)).add(links.parent).add(static_cast<std::int32_t>(workers_.size()));
    answer.add(static_cast<std::int32_t>(links.tree.size()));
    for (auto const neighbour : links.tree) answer.add(neighbour);
    answer.add(links.previous).add(links.next);
    co_await write(rank, answer.bytes());

    std::int32_t failures = 1;
    for (int attempt = 0; failures != 0; ++attempt) {
      if (attempt == link_attempts) throw TrackerReport::lost(rank, "cannot reach the ranks that it has to connect to");
      auto missing = links.everybody;
      auto const good = co_await read_number(rank, static_cast<std::int32_t>(missing.size()));
      for (std::int32_t i = 0; i < good; ++i) {
        auto const peer = co_await read_number(rank, static_cast<std::int32_t>(workers_.size()) - 1);
        missing.erase(peer);
      }
      auto const before = missing.lower_bound(static_cast<std::int32_t>(rank));
      auto const connects = static_cast<std::int32_t>(std::distance(missing.begin(), before));
      RabitWriter peers;
      peers.add(connects).add(static_cast<std::int32_t>(missing.size()) - connects);
      for (auto peer = missing.begin(); peer != before; ++peer) {
        auto const& other = workers_[static_cast<std::size_t>(*peer)];
        peers.add(std::string_view{other.host}).add(other.port).add(*peer);
      }
      co_await write(rank, peers.bytes());
      failures = co_await read_number(rank, connects);
    }
    worker.port = co_await read_number(rank, highest_port);
    for (auto const peer : links.everybody) {
      if (static_cast<std::size_t>(peer) < rank) {
        --workers_[static_cast<std::size_t>(peer)].awaited;
      } else {
        ++worker.awaited;
      }
    }
    worker.stream.reset();
  }

  auto write(std::size_t rank, BytesView bytes) -> asio::awaitable<void> {
    try {
      co_await workers_[rank].stream->write(bytes);
    } catch (std::system_error const& error) {
      if (error.code().value() == ECANCELED) throw;
      throw TrackerReport::lost(rank, TrackerReport::broken(error.code()));
    }
  }

  /// A number from 0 to `highest`.
  auto read_number(std::size_t rank, std::int32_t highest) -> asio::awaitable<std::int32_t> {
    std::int32_t number = 0;
    auto room = std::as_writable_bytes(std::span{&number, 1});
    while (!room.empty()) {
      std::size_t count = 0;
      try {
        count = co_await workers_[rank].stream->read_some(room);
      } catch (std::system_error const& error) {
        if (error.code().value() == ECANCELED) throw;
        throw TrackerReport::lost(rank, TrackerReport::broken(error.code()));
      }
      if (count == 0) throw TrackerReport::lost(rank, TrackerReport::ended);
      room = room.subspan(count);
    }
    if (number < 0 || number > highest) {
      throw TrackerReport::lost(
          rank, "brought " + std::to_string(number) + " where 0 to " + std::to_string(highest) + " are allowed");
    }
    co_return number;
  }

  /// Ends the wait of workers for others that will not connect to them any more.
  auto release_all() -> asio::awaitable<void> {
    for (auto const& worker : workers_) {
      if (worker.port == 0 || worker.awaited == 0) continue;
      SocketAddress const address{"tcp:" + worker.host + ':' + std::to_string(worker.port)};
      try {
        auto stream = co_await SocketStream::connect(executor_, address);
        stream.close();
      } catch (std::system_error const& error) {
        if (error.code().value() == ECANCELED) throw;
      }
    }
  }

  void welcome(RabitGreeting greeting, SocketStream stream) {
    auto const found = arguments_.rank_of(greeting.task_id);
    if (!found) return report_.tell_stranger(stream.peer() + " is no worker of this run");
    auto const rank = std::size_t{found->value};
    if (greeting.command == "print") {
      report_.tell_print(std::move(greeting.text));
    } else if (greeting.command == "shutdown") {
      take_leave(rank);
    } else if (greeting.command == "start") {
      admit(rank, greeting, std::move(stream));
    } else {
      report_.tell_stranger(TrackerReport::name_of(rank) + " asks for '" + greeting.command +
                            "', which this tracker does not know");
    }
  }

  void admit(std::size_t rank, RabitGreeting const& greeting, SocketStream stream) {
    auto& worker = workers_[rank];
    auto const size = static_cast<std::int32_t>(workers_.size());
    if (phase_ != Phase::gathering) {
      return report_.tell_stranger(TrackerReport::name_of(rank) + (phase_ == Phase::failed
                                                                       ? " comes after the start has failed"
                                                                       : " comes a second time, and keeps its place"));
    }
    if (greeting.world != -1 && greeting.world != size) {
      fault_.emplace(Errc::rank_mismatch, TrackerReport::attempted,
                     TrackerReport::name_of(rank) + " says that there are " + std::to_string(greeting.world) +
                         " workers, and there are " + std::to_string(size));
      gathered_.push(true);
      return;
    }
    if (worker.taken)
      return report_.tell_stranger(TrackerReport::name_of(rank) +
                                   " comes a second time, and the first one keeps the place");
    // "tcp:10.0.0.5:41234"
    auto const& peer = stream.peer();
    worker.host = peer.substr(4, peer.rfind(':') - 4);
    worker.stream.emplace(std::move(stream));
    worker.taken = true;
    waiting_->spawn(watch(rank));
    if (++here_ == workers_.size()) gathered_.push(true);
  }

  void take_leave(std::size_t rank) {
    if (phase_ != Phase::running || std::exchange(workers_[rank].ended, true)) return;
    if (++gone_ == workers_.size()) end_.close();
  }

  void fail(Error const& error) {
    phase_ = Phase::failed;
    report_.tell_error(error);  // before a worker that is let go can ask for it
    for (auto& worker : workers_) worker.stream.reset();
  }

  [[nodiscard]] auto lateness() const -> Error {
    std::vector<bool> here;
    for (auto const& worker : workers_) here.push_back(worker.taken);
    return TrackerReport::lateness(options_, here, arguments_);
  }

  static constexpr int link_attempts = 5;
  static constexpr std::int32_t highest_port = 65535;
  static constexpr std::chrono::milliseconds release_limit{500};

  XGBoostTrackerOptions const options_;
  TrackerReport report_;
  SystemClock clock_;
  Executor executor_{clock_};
  RabitListener listener_;
  XGBoostWorkerArguments const arguments_;
  Channel<bool> end_{executor_, 1};  ///< Brings nothing; closed to end the tracker.

  // The thread's own.
  std::vector<Worker> workers_;
  Channel<bool> gathered_{executor_, 1};
  Scope* waiting_ = nullptr;  ///< While workers are gathered.
  std::optional<Error> fault_;
  Phase phase_ = Phase::gathering;
  std::size_t here_ = 0;
  std::size_t gone_ = 0;

  std::mutex close_mutex_;
  std::thread thread_;  ///< Last: it uses everything above.
};

}  // namespace raytrain::detail
