// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
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
#include <raytrain/exec/channel.hpp>
#include <raytrain/exec/deadline.hpp>
#include <raytrain/exec/executor.hpp>
#include <raytrain/exec/scope.hpp>
#include <raytrain/exec/sockets.hpp>

namespace raytrain::detail {

/// Stands before the tracker of XGBoost 2.1 and later, and passes on what workers and tracker say to each other.
///
/// A worker is let through when its greeting is complete and has its task id. The tracker sees each rank at an address
/// of its own in 127.0.0.0/8, by which the relay knows whose real address to tell the others.
///
/// Threads: every function from any thread, but `close` and the destructor from none of the events. One thread of its
///          own does all the work.
/// Source:  XGBoost's src/collective/protocol.h.
class TrackerRelay {
 public:
  /// XGBoost's tracker, on this host.
  struct Tracker {
    std::uint16_t port;
    std::string secret;  ///< What workers say to be let through.
  };

  /// Listens when it returns.
  ///
  /// Errors: as `RabitListener`'s.
  TrackerRelay(XGBoostTrackerOptions options, XGBoostTrackerEvents events, Tracker tracker)
      : options_{std::move(options)},
        report_{std::move(events)},
        tracker_{"tcp:127.0.0.1:" + std::to_string(tracker.port)},
        listener_{executor_,
                  {RabitForm::json, options_.address, options_.greeting_timeout, options_.max_strangers},
                  {.on_greeting = [this](RabitGreeting greeting,
                                         SocketStream stream) { welcome(std::move(greeting), std::move(stream)); },
                   .on_stranger = [this](std::string text) { report_.tell_stranger(std::move(text)); }}},
        arguments_{options_.address, listener_.port(), options_.world.value, std::move(tracker.secret)},
        workers_(options_.world.value) {
    thread_ = std::thread{[this] { executor_.run(serve()); }};
  }
  TrackerRelay(TrackerRelay const&) = delete;
  auto operator=(TrackerRelay const&) -> TrackerRelay& = delete;
  ~TrackerRelay() { close(); }

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
  enum class Phase { gathering, running, failed };
  enum class Command { none, start, shutdown, error, print };  ///< As XGBoost numbers them.

  /// One for each rank.
  struct Worker {
    std::string host{};
    std::string error_port{};  ///< Where its library waits to be told of errors, or that it is over.
    bool taken = false;
    bool answered = false;  ///< The tracker has told it with whom to connect.
    bool ended = false;
  };

  /// A worker's connection, and the one to the tracker that is its other half.
  struct Pair {
    Pair(std::size_t rank_, SocketStream worker_) : rank{rank_}, worker{std::move(worker_)} {}
    std::size_t rank;
    SocketStream worker;
    std::optional<SocketStream> tracker{};
    Bytes answer{};  ///< What has come of the tracker and is not passed on yet.
  };

  auto serve() -> asio::awaitable<void> {
    Scope work{executor_};
    Scope pairs{executor_};
    Scope goodbyes{executor_};
    pairs_ = &pairs;
    goodbyes_ = &goodbyes;
    work.spawn(listener_.serve());
    work.spawn(look_at_limit());
    co_await end_.receive();
    work.cancel();
    co_await work.join();
    pairs.cancel();
    co_await pairs.join();
    // XGBoost's tracker that is freed while it takes a goodbye goes on listening, at nothing, for its whole limit.
    auto const soon = executor_.clock().now() + release_limit;
    co_await finish_by(executor_, soon, goodbyes.join());
    co_await release_in_time();
  }

  auto look_at_limit() -> asio::awaitable<void> {
    auto const deadline = executor_.clock().now() + options_.start_limit;
    try {
      bool const in_time = co_await finish_by(executor_, deadline, gather());
      if (!in_time) fail(lateness());
    } catch (Error const& error) {
      fail(error);
    }
    if (phase_ == Phase::failed) co_await release_in_time();
  }

  auto release_in_time() -> asio::awaitable<void> {
    auto const soon = executor_.clock().now() + release_limit;
    co_await finish_by(executor_, soon, release_all());
  }

  /// Ends the threads, with a socket each, that XGBoost leaves behind in workers which were not connected with each
  /// other or have not said goodbye.
  auto release_all() -> asio::awaitable<void> {
    RabitWriter over;
    over.add(std::int32_t{0});
    for (auto& worker : workers_) {
      auto const port = std::exchange(worker.error_port, {});
      if (port.empty() || worker.ended) continue;
      try {
        SocketAddress const address{"tcp:" + worker.host + ':' + port};
        auto stream = co_await SocketStream::connect(executor_, address);
        co_await stream.write(over.bytes());
      } catch (std::system_error const& error) {
        if (error.code().value() == ECANCELED) throw;
      } catch (Error const&) {
        continue;  // its greeting has no such port
      }
    }
  }

  /// Returns when the tracker has answered all.
  auto gather() -> asio::awaitable<void> {
    co_await gathered_.receive();
    if (fault_) throw Error{*fault_};
    phase_ = Phase::running;
  }

  void fail(Error const& error) {
    phase_ = Phase::failed;
    report_.tell_error(error);  // before a worker that is let go can ask for it
    pairs_->cancel();
  }

  [[nodiscard]] auto lateness() const -> Error {
    std::vector<bool> here;
    for (auto const& worker : workers_) here.push_back(worker.taken);
    return TrackerReport::lateness(options_, here, arguments_);
  }

  void lose(std::size_t rank, std::string const& why) {
    if (phase_ != Phase::gathering || fault_) return;
    fault_ = TrackerReport::lost(rank, why);
    gathered_.push(true);
  }

  void welcome(RabitGreeting greeting, SocketStream stream) {
    auto const found = arguments_.rank_of(value_of(greeting.task_id, "task_id"));
    if (!found) return report_.tell_stranger(stream.peer() + " is no worker of this run");
    auto const rank = std::size_t{found->value};
    auto const command = command_of(greeting.command);
    auto& worker = workers_[rank];
    if (command == Command::shutdown) {
      if (phase_ != Phase::running || std::exchange(worker.ended, true)) return;
    } else if (command == Command::start) {
      if (phase_ != Phase::gathering || worker.taken) {
        return report_.tell_stranger(TrackerReport::name_of(rank) +
                                     (phase_ == Phase::failed
                                          ? " comes after the start has failed"
                                          : " comes a second time, and the first one keeps the place"));
      }
      auto const& peer = stream.peer();
      worker.host = peer.substr(4, peer.rfind(':') - 4);
      worker.error_port = number_of(greeting.command, "error_port");
      worker.taken = true;
    } else if (command == Command::print) {
      return report_.tell_print(std::string{value_of(greeting.command, "msg")});
    } else {
      // XGBoost's tracker would end the processes of other hosts for an error of one of them.
      return report_.tell_stranger(TrackerReport::name_of(rank) + " asks for " + greeting.command +
                                   ", which this tracker does not pass on");
    }
    auto* const scope = command == Command::start ? pairs_ : goodbyes_;
    scope->spawn(relay(rank, std::move(greeting), std::move(stream)));
  }

  auto relay(std::size_t rank, RabitGreeting greeting, SocketStream stream) -> asio::awaitable<void> {
    bool const starts = command_of(greeting.command) == Command::start;
    Pair pair{rank, std::move(stream)};
    std::string why;
    try {
      pair.tracker.emplace(co_await SocketStream::connect(executor_, tracker_, address_for(rank)));
      RabitWriter words;
      words.add(rabit_magic).add(std::string_view{greeting.task_id}).add(std::string_view{greeting.command});
      co_await pair.tracker->write(words.bytes());
      if (starts) {
        Scope both{executor_};
        both.spawn(pass_to_tracker(pair));
        both.spawn(pass_to_worker(pair, both));
        co_await both.join();
      } else {
        co_await wait_for_end(*pair.tracker);
      }
    } catch (std::system_error const& error) {
      if (error.code().value() == ECANCELED) throw;
      why = TrackerReport::broken(error.code());
    } catch (Error const& error) {
      why = error.happened();
    }
    if (starts && !workers_[rank].answered) lose(rank, why.empty() ? "was closed by XGBoost's tracker" : why);
    if (!starts && ++gone_ == workers_.size()) end_.close();
  }

  /// The rest of what the worker says. When it leaves before it was answered, it is lost.
  auto pass_to_tracker(Pair& pair) -> asio::awaitable<void> {
    Bytes buffer(longest_answer);
    while (true) {
      auto const count = co_await pair.worker.read_some(buffer);
      if (count == 0 && !workers_[pair.rank].answered) {
        throw Error{Errc::worker_failed, TrackerReport::attempted, TrackerReport::ended};
      }
      if (count == 0) break;
      auto const words = BytesView{buffer}.first(count);
      co_await pair.tracker->write(words);
    }
    pair.tracker->end_writing();
  }

  /// Passes on the tracker's answer: a magic number, then strings. The last string names the worker's neighbours.
  auto pass_to_worker(Pair& pair, Scope& both) -> asio::awaitable<void> {
    Bytes buffer(longest_answer);
    bool has_magic = false;
    while (true) {
      auto const count = co_await pair.tracker->read_some(buffer);
      if (count == 0) break;
      pair.answer.insert(pair.answer.end(), buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(count));
      if (!has_magic && pair.answer.size() >= number_bytes) {
        // The worker has it from the listener.
        pair.answer.erase(pair.answer.begin(), pair.answer.begin() + number_bytes);
        has_magic = true;
      }
      while (has_magic) {
        auto const text = take_string(pair);
        if (!text) break;
        RabitWriter words;
        words.add(std::string_view{with_real_host(*text)});
        co_await pair.worker.write(words.bytes());
        if (text->find(R"("host")") != std::string::npos) answered(pair.rank);
      }
    }
    both.cancel();
  }

  static auto wait_for_end(SocketStream& stream) -> asio::awaitable<void> {
    Bytes buffer(longest_answer);
    std::size_t count = 1;
    while (count > 0) count = co_await stream.read_some(buffer);
  }

  void answered(std::size_t rank) {
    if (std::exchange(workers_[rank].answered, true)) return;
    if (++answered_ == workers_.size()) gathered_.push(true);
  }

  static auto take_string(Pair& pair) -> std::optional<std::string> {
    if (pair.answer.size() < number_bytes) return std::nullopt;
    std::int32_t size = 0;
    std::memcpy(&size, pair.answer.data(), number_bytes);
    if (size < 0 || size > static_cast<std::int32_t>(longest_answer)) {
      throw Error{Errc::bad_message, TrackerReport::attempted, "was answered by XGBoost's tracker with no string"};
    }
    auto const bytes = static_cast<std::size_t>(size);
    if (pair.answer.size() < number_bytes + bytes) return std::nullopt;
    std::string text{text_of(BytesView{pair.answer}.subspan(number_bytes, bytes))};
    pair.answer.erase(pair.answer.begin(), pair.answer.begin() + static_cast<std::ptrdiff_t>(number_bytes + bytes));
    return text;
  }

  /// The address from which the tracker sees a rank come: 127.1.0.0 and on.
  static auto address_for(std::size_t rank) -> SocketAddress { return SocketAddress{"tcp:" + host_for(rank) + ":0"}; }

  static auto host_for(std::size_t rank) -> std::string {
    auto const number = rank + first_host;
    return "127." + std::to_string(number >> 16U) + '.' + std::to_string((number >> 8U) & 255U) + '.' +
           std::to_string(number & 255U);
  }

  [[nodiscard]] auto with_real_host(std::string text) const -> std::string {
    auto const host = value_of(text, "host");
    if (host.empty()) return text;
    for (std::size_t rank = 0; rank < workers_.size(); ++rank) {
      if (host_for(rank) != host) continue;
      return text.replace(static_cast<std::size_t>(host.data() - text.data()), host.size(), workers_[rank].host);
    }
    throw Error{Errc::bad_message, TrackerReport::attempted,
                "was answered by XGBoost's tracker with the host of nobody, " + std::string{host}};
  }

  /// The text of a name in JSON as XGBoost writes it, without escapes; empty where there is none.
  static auto value_of(std::string_view json, std::string_view name) -> std::string_view {
    auto const key = '"' + std::string{name} + '"';
    auto const at = json.find(key);
    if (at == std::string_view::npos) return {};
    auto const begin = json.find('"', at + key.size());
    if (begin == std::string_view::npos) return {};
    auto const end = json.find('"', begin + 1);
    return end == std::string_view::npos ? std::string_view{} : json.substr(begin + 1, end - begin - 1);
  }

  /// The digits that follow a name in JSON; empty where there are none.
  static auto number_of(std::string_view json, std::string_view name) -> std::string {
    auto const key = '"' + std::string{name} + '"';
    auto const at = json.find(key);
    if (at == std::string_view::npos) return {};
    auto const begin = json.find_first_not_of(": ", at + key.size());
    if (begin == std::string_view::npos) return {};
    auto const end = std::min(json.find_first_not_of("0123456789", begin), json.size());
    return std::string{json.substr(begin, end - begin)};
  }

  static auto command_of(std::string_view json) -> Command {
    auto const number = number_of(json, "cmd");
    if (number.size() != 1 || number[0] < '1' || number[0] > '4') return Command::none;
    return static_cast<Command>(number[0] - '0');
  }

  static constexpr std::size_t number_bytes = sizeof(std::int32_t);
  static constexpr std::size_t longest_answer = 4096;
  static constexpr std::chrono::milliseconds release_limit{500};
  static constexpr std::size_t first_host = std::size_t{1} << 16U;

  XGBoostTrackerOptions const options_;
  TrackerReport report_;
  SocketAddress const tracker_;
  SystemClock clock_;
  Executor executor_{clock_};
  RabitListener listener_;
  XGBoostWorkerArguments const arguments_;
  Channel<bool> end_{executor_, 1};  ///< Brings nothing; closed to end the relay.

  // The thread's own.
  std::vector<Worker> workers_;
  Channel<bool> gathered_{executor_, 1};
  Scope* pairs_ = nullptr;     ///< Connections of workers that start.
  Scope* goodbyes_ = nullptr;  ///< Those of workers that end.
  std::optional<Error> fault_;
  Phase phase_ = Phase::gathering;
  std::size_t answered_ = 0;
  std::size_t gone_ = 0;

  std::mutex close_mutex_;
  std::thread thread_;  ///< Last: it uses everything above.
};

}  // namespace raytrain::detail
