// SPDX-License-Identifier: Apache-2.0
// The line between a worker's process and its controller's: how long a report and its answer take, and how many reports
// a second go through it, in turns with blocking sockets that carry as many bytes. Arguments: tcp or unix, whether each
// process has a core of its own, round trips, reports of each stream. Prints one JSON object. An answer or a report
// that is lost, or that another one has overtaken, ends it with status 1.
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <list>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <raytrain/core/usable_cores.hpp>
#include <raytrain/launch/control_client.hpp>
#include <raytrain/launch/control_server.hpp>
#include <raytrain/launch/message_sink.hpp>
#include <raytrain/launch/run_token.hpp>
#include <raytrain/launch/worker_link.hpp>
#include <raytrain/message/codec.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/message/report_fields.hpp>

#include "raw_line.hpp"
#include "sample.hpp"

namespace {

using namespace raytrain;

constexpr std::uint32_t workers = 4;
constexpr int block = 50;  // round trips of one side before the other one's turn
constexpr int warm_up = 5;

/// A report that asks for no answer, unless it comes with a checkpoint.
auto report(Rank rank, std::uint64_t iteration) -> Report {
  Report made;
  made.rank = rank;
  made.training_iteration = iteration;
  made.time_this_iter_s = 0.01;
  made.time_total_s = 0.01 * static_cast<double>(iteration);
  made.timestamp_ns = now_ns();
  made.metrics = to_metrics(Sample{static_cast<std::int64_t>(iteration), 0.5, 0.9});
  return made;
}

[[noreturn]] void fail(std::string const& why) {
  std::fprintf(stderr, "control_line: %s\n", why.c_str());
  ::_exit(1);
}

// The controller's process --------------------------------------------------------------------------------------------

/// Answers on the server's thread, as soon as a report with a checkpoint is there.
class Answering {
 public:
  Answering(bool tcp, int to_workers)
      : server_{ControlServer::Options{
                    .world = WorldSize{workers}, .interface_address = "127.0.0.1", .unix_socket_too = !tcp},
                ControlServer::Events{[this](Rank rank, WorkerMessage& message) { return take(rank, message); },
                                      [](Rank, ControlServer::LostConnection const& lost) { fail(lost.text); },
                                      [](std::string const& text) { fail(text); }}} {
    auto const line = server_.addresses().front() + '\n' + server_.token().to_hex() + '\n';
    write_text(to_workers, line);
  }

 private:
  static void write_text(int to, std::string const& text) {
    if (::write(to, text.data(), text.size()) != static_cast<ssize_t>(text.size())) fail("the pipe is broken");
  }

  auto take(Rank rank, WorkerMessage& message) -> bool {
    auto const* const came = std::get_if<Report>(&message);
    if (came == nullptr || came->rank != rank || came->training_iteration != ++last_[rank.value]) {
      fail("a report was lost or overtaken");
    }
    if (came->checkpoint) server_.tell(rank, CheckpointSettled{*came->checkpoint, {}});
    return true;
  }

  std::vector<std::uint64_t> last_ = std::vector<std::uint64_t>(workers);
  ControlServer server_;
};

/// Binds this process to a core of its own, as ranks have them.
void take_core(std::size_t which) {
  auto const cores = usable_cores();
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cores[which % cores.size()], &one);
  if (::sched_setaffinity(0, sizeof one, &one) != 0) fail("no core can be taken");
}

void control(bool tcp, int to_workers, std::vector<RawPair> const& pairs) {
  Answering const answering{tcp, to_workers};
  ::close(to_workers);
  std::vector<std::jthread> raw;
  for (auto const& pair : pairs) raw.emplace_back([end = pair.keep(1)] { answer_raw(end); });
}

// The workers' process ------------------------------------------------------------------------------------------------

/// Takes no messages.
class Nobody final : public MessageSink {
  auto send(WorkerMessage) -> bool override { return false; }
};

/// One worker's end of both lines.
class Worker {
 public:
  Worker(Rank rank, std::string const& address, RunToken const& token, int raw)
      : rank_{rank},
        raw_{raw},
        client_{ControlClient::Options{.addresses = {address}, .token = token, .rank = rank},
                ControlClient::Events{[this](ControllerMessage message) { take(message); },
                                      [](std::string const& why) { fail(why); }}} {}
  Worker(Worker const&) = delete;
  auto operator=(Worker const&) -> Worker& = delete;
  ~Worker() {
    client_.close();
    ::close(raw_);
  }

  /// From the worker's thread and back to it, as report() goes that waits for its checkpoint.
  void waited_for(int count, std::vector<double>& times_ns) {
    for (int i = 0; i < count; ++i) {
      auto const start = now_ns();
      auto const number = send(true);
      link_.wait_committed(number);
      if (i >= warm_up) times_ns.push_back(static_cast<double>(now_ns() - start));
    }
  }

  /// Without the worker's thread: each answer sends the next report.
  void inside_events(int count, std::vector<double>& times_ns) {
    times_ns_ = &times_ns;
    left_.store(count);
    started_ns_ = now_ns();
    send(true);
    for (int now = left_.load(); now > 0; now = left_.load()) left_.wait(now);
  }

  void raw_round_trips(int count, std::vector<double>& times_ns) {
    RawTask const task{message_bytes(), answer_bytes(), static_cast<std::uint64_t>(count), 1};
    write_all(raw_, reinterpret_cast<std::byte const*>(&task), sizeof task);
    std::vector<std::byte> message(task.message_bytes);
    std::vector<std::byte> answer(task.answer_bytes);
    for (std::uint64_t number = 0; number < task.messages; ++number) {
      auto const start = now_ns();
      std::memcpy(message.data(), &number, sizeof number);
      write_all(raw_, message.data(), message.size());
      if (!read_all(raw_, answer.data(), answer.size()) || std::memcmp(answer.data(), &number, sizeof number) != 0) {
        throw std::runtime_error{"a raw answer is wrong"};
      }
      if (number >= warm_up) times_ns.push_back(static_cast<double>(now_ns() - start));
    }
  }

  /// Until the controller has the last one.
  void stream(int count) {
    for (int i = 1; i < count; ++i) send(false);
    auto const number = send(true);
    link_.wait_committed(number);
  }

  void raw_stream(int count) {
    RawTask const task{encode(report(rank_, 1)).size(), answer_bytes(), static_cast<std::uint64_t>(count), 0};
    write_all(raw_, reinterpret_cast<std::byte const*>(&task), sizeof task);
    std::vector<std::byte> message(task.message_bytes);
    for (int i = 0; i < count; ++i) write_all(raw_, message.data(), message.size());
    if (!read_all(raw_, message.data(), task.answer_bytes)) throw std::runtime_error{"a raw answer is missing"};
  }

  [[nodiscard]] auto message_bytes() const -> std::size_t {
    auto asking = report(rank_, 1);
    asking.checkpoint = CheckpointOrdinal{1};
    return encode(asking).size();
  }
  [[nodiscard]] static auto answer_bytes() -> std::size_t {
    return encode(CheckpointSettled{CheckpointOrdinal{1}, {}}).size();
  }

 private:
  auto send(bool wants_answer) -> CheckpointOrdinal {
    auto made = report(rank_, ++iteration_);
    auto const asked = asked_;
    if (wants_answer) {
      made.checkpoint = asked;
      ++asked_.value;
    }
    if (!client_.send(std::move(made))) throw std::runtime_error{"the connection has ended"};
    return asked;
  }

  // On the client's thread.
  void take(ControllerMessage const& message) {
    if (std::get<CheckpointSettled>(message).checkpoint.value != answered_++) fail("an answer was lost or overtaken");
    link_.deliver(message);
    if (left_.load() == 0) return;
    auto const now = now_ns();
    times_ns_->push_back(static_cast<double>(now - std::exchange(started_ns_, now)));
    if (left_.fetch_sub(1) > 1) {
      send(true);
    } else {
      left_.notify_one();
    }
  }

  Rank rank_;
  int raw_;
  Nobody nobody_;  // the client has what the worker sends
  WorkerLink link_{Placement{}, nobody_};
  std::uint64_t iteration_ = 0;
  CheckpointOrdinal asked_{};
  std::uint64_t answered_ = 0;  ///< The client's thread only.
  std::atomic<int> left_{0};
  std::int64_t started_ns_ = 0;
  std::vector<double>* times_ns_ = nullptr;
  ControlClient client_;
};

auto middle_us(std::vector<double>& times_ns) -> double {
  auto const at = times_ns.begin() + static_cast<std::ptrdiff_t>(times_ns.size() / 2);
  std::nth_element(times_ns.begin(), at, times_ns.end());
  return *at / 1e3;
}

/// Reports a second of the first `senders` workers together.
auto rate(std::list<Worker>& all, std::size_t senders, int count, void (Worker::*stream)(int)) -> double {
  auto const start = now_ns();
  {
    std::vector<std::jthread> threads;
    for (auto& worker : all) {
      if (threads.size() < senders) threads.emplace_back([&worker, stream, count] { (worker.*stream)(count); });
    }
  }
  return static_cast<double>(senders) * count * 1e9 / static_cast<double>(now_ns() - start);
}

void measure(std::list<Worker>& all, int round_trips, int streamed) {
  auto& first = all.front();
  std::vector<double> waited;
  std::vector<double> inside;
  std::vector<double> raw;
  for (int done = 0; done < round_trips; done += block) {
    first.waited_for(block, waited);
    first.raw_round_trips(block, raw);
    first.inside_events(block, inside);
  }
  std::printf("{\"waited_us\": %.3f, \"inside_us\": %.3f, \"raw_us\": %.3f, \"report_bytes\": %zu", middle_us(waited),
              middle_us(inside), middle_us(raw), first.message_bytes());
  for (std::size_t senders = 1; senders <= workers; senders *= 2) {
    auto const ours = rate(all, senders, streamed, &Worker::stream);
    auto const twin = rate(all, senders, streamed, &Worker::raw_stream);
    std::printf(", \"rate_%zu\": %.1f, \"raw_rate_%zu\": %.1f", senders, ours, senders, twin);
  }
  std::printf("}\n");
}

void work(int from_controller, std::vector<RawPair> const& pairs, int round_trips, int streamed) {
  std::string lines;
  std::vector<char> part(256);
  for (ssize_t count = 0; (count = ::read(from_controller, part.data(), part.size())) > 0;) {
    lines.append(part.data(), static_cast<std::size_t>(count));
  }
  auto const end = lines.find('\n');
  if (end == std::string::npos) throw std::runtime_error{"the controller's process does not listen"};
  auto const token = RunToken::from_hex(lines.substr(end + 1, 2 * RunToken::size_bytes));
  std::list<Worker> all;
  for (auto const& pair : pairs) {
    all.emplace_back(Rank{static_cast<std::uint32_t>(all.size())}, lines.substr(0, end), token, pair.keep(0));
  }
  measure(all, round_trips, streamed);
}

}  // namespace

auto main(int argc, char** argv) -> int try {
  if (argc != 5) throw std::invalid_argument{"usage: control_line tcp|unix own_cores|any_cores ROUND_TRIPS STREAMED"};
  bool const tcp = std::string{argv[1]} == "tcp";
  bool const pinned = std::string{argv[2]} == "own_cores";
  std::vector<RawPair> const pairs = [&] {
    std::vector<RawPair> made;
    while (made.size() < workers) made.emplace_back(tcp);
    return made;
  }();
  int line[2];
  if (::pipe(line) != 0) throw std::runtime_error{"no pipe"};
  auto const child = ::fork();  // before any thread
  if (child < 0) throw std::runtime_error{"no fork"};
  if (child == 0) {
    ::close(line[0]);
    if (pinned) take_core(0);
    control(tcp, line[1], pairs);
    return 0;
  }
  ::close(line[1]);
  if (pinned) take_core(1);
  work(line[0], pairs, std::atoi(argv[3]), std::atoi(argv[4]));
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
} catch (std::exception const& error) {
  std::fprintf(stderr, "control_line: %s\n", error.what());
  return 1;
}
