// Answers over HTTP by a model that adult_income has trained: people as lines of JSON in, and for each the probability
// of more than 50,000 out. It takes the newer checkpoints of a training that goes on. Run ./examples/run adult_income,
// then ./examples/run serve, and ask it as it tells.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <filesystem>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <httplib.h>
#include <CLI/CLI.hpp>

#include <raytrain/core/error.hpp>
#include <raytrain/core/utf8.hpp>
#include <raytrain/data/json_lines.hpp>
#include <raytrain/message/json.hpp>
#include <raytrain/train/result.hpp>

#include "adult_income/model.hpp"

namespace {

namespace fs = std::filesystem;

struct Options {
  fs::path run = "runs/adult_income_torch_20000";
  std::string host = "127.0.0.1";
  int port = 8080;
  int threads = 16;
};

struct Model {
  /// Of the checkpoint and its run's id: a new run in the same folder has checkpoints of the same numbers.
  std::string name;
  Predict predict;
};

/// The model of a run's newest checkpoint.
class NewestModel {
 public:
  /// Errors: where the run has no checkpoint.
  explicit NewestModel(fs::path const& run) : run_{run} { look(); }

  /// Loads the newest checkpoint, unless it has that one. Errors: those of reading it; the old one stays.
  void look() {
    auto const now = fs::file_time_type::clock::now();
    std::error_code missing;  // of which `from_path` says more
    auto const changed = fs::last_write_time(run_ / "checkpoints", missing);
    if (!missing && changed == looked_at_) return;
    auto const checkpoint = raytrain::Result::from_path(run_).checkpoint();
    if (!checkpoint) throw std::runtime_error{fmt::format("{} has no checkpoint yet: train a while", run_.string())};
    auto name = fmt::format("{} of run {}", checkpoint->location(), checkpoint->run_id());
    if (!model_ || model_->name != name) {
      auto model = std::make_shared<Model const>(std::move(name), predict_by(*checkpoint));
      std::lock_guard const lock{mutex_};
      model_ = std::move(model);
    }
    // What has just changed may change again within the same tick of the clock.
    if (now - changed > std::chrono::seconds{2}) looked_at_ = changed;
  }

  [[nodiscard]] auto get() const -> std::shared_ptr<Model const> {
    std::lock_guard const lock{mutex_};
    return model_;
  }

 private:
  fs::path run_;
  std::optional<fs::file_time_type> looked_at_;
  mutable std::mutex mutex_;
  std::shared_ptr<Model const> model_;
};

auto predictions_json(std::vector<float> const& predictions) -> std::string {
  std::string json;
  for (auto const prediction : predictions) {
    json += json.empty() ? "" : ",";
    json += std::isfinite(prediction) ? fmt::format("{}", prediction) : "null";
  }
  return "{\"predictions\":[" + json + "]}\n";
}

auto error_json(std::string_view what) -> std::string {
  return "{\"error\":" + raytrain::json_string(raytrain::to_utf8(what)) + "}\n";
}

void answer_error(httplib::Response& response, int status, std::string_view what) {
  response.status = status;
  response.set_content(error_json(what), "application/json");
}

/// Ends the connection, too: what follows is the body, and no other request.
void refuse(httplib::Response& response, int status, std::string_view what) {
  response.status = status;
  response.set_header("Connection", "close");
  auto const text = error_json(what);
  response.set_content_provider(text.size(), "application/json",
                                [text](std::size_t, std::size_t, httplib::DataSink& to) {
                                  to.write(text.data(), text.size());
                                  return false;  // by which the library ends it
                                });
}

/// What the library would take without counting: bodies of a length that nobody has said, or that grow when they are
/// unpacked, and ranges, by which a short request gets a long answer.
auto refuse_uncounted(httplib::Request const& request, httplib::Response& response) -> bool {
  for (auto const* const header : {"Transfer-Encoding", "Content-Encoding", "Range"}) {
    if (!request.has_header(header)) continue;
    refuse(response, 400, fmt::format("{} is not taken: send the rows as they are", header));
    return true;
  }
  if (request.method == "GET" || request.method == "HEAD" || request.has_header("Content-Length")) return false;
  refuse(response, 411, "Content-Length is missing");
  return true;
}

void answer(httplib::Server& server, NewestModel const& newest) {
  server.set_pre_routing_handler([](httplib::Request const& request, httplib::Response& response) {
    using Handled = httplib::Server::HandlerResponse;
    return refuse_uncounted(request, response) ? Handled::Handled : Handled::Unhandled;
  });
  server.Get("/healthz", [&newest](httplib::Request const&, httplib::Response& response) {
    auto const name = raytrain::json_string(newest.get()->name);
    response.set_content("{\"status\":\"ok\",\"checkpoint\":" + name + "}\n", "application/json");
  });
  server.Post("/predict", [&newest](httplib::Request const& request, httplib::Response& response) {
    try {
      auto const rows = raytrain::parse_json_lines(request.body, people_options(), "the request");
      response.set_content(predictions_json(newest.get()->predict(rows)), "application/json");
    } catch (raytrain::Error const& error) {
      // What to do about it is said to who writes the program, and not to who asks.
      auto const is_theirs = error.code() == raytrain::Errc::invalid_data || error.code() == raytrain::Errc::not_found;
      answer_error(response, is_theirs ? 400 : 500, error.attempted() + ": " + error.happened());
    } catch (std::exception const& error) {
      answer_error(response, 500, error.what());
    }
  });
  server.set_error_handler([](httplib::Request const& request, httplib::Response& response) {
    if (!response.body.empty() || response.has_header("Connection")) return;  // which says why
    answer_error(response, response.status,
                 fmt::format("{} {}: there is GET /healthz, and POST /predict, with Content-Type: application/json "
                             "and at most 1 MiB",
                             request.method, request.path));
  });
}

/// Blocks what asks a program to stop, in the threads that are started from now on, too: `follow` waits for it.
auto block_stops() -> sigset_t {
  sigset_t stops;
  sigemptyset(&stops);
  sigaddset(&stops, SIGINT);
  sigaddset(&stops, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &stops, nullptr);
  return stops;
}

/// Until it is to stop: looks for a newer checkpoint once a second.
void follow(NewestModel& newest, sigset_t const& stops) {
  std::string warned;
  for (timespec const second{.tv_sec = 1, .tv_nsec = 0}; sigtimedwait(&stops, nullptr, &second) < 0;) {
    try {
      auto const before = newest.get();
      newest.look();
      warned.clear();
      if (newest.get() == before) continue;
      std::puts(("now from " + newest.get()->name).c_str());
      std::fflush(stdout);
    } catch (std::exception const& error) {
      if (warned != error.what()) std::fputs(fmt::format("goes on as it is: {}\n", error.what()).c_str(), stderr);
      warned = error.what();
    }
  }
}

/// Listens at the port, which may be 0 for any. Returns which one it is.
auto bind(httplib::Server& server, Options const& options) -> int {
  // Without these the library sets SO_REUSEPORT, by which a second program would get a part of the requests.
  server.set_socket_options([](socket_t socket) {
    int const yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  if (options.port == 0) {
    if (auto const port = server.bind_to_any_port(options.host); port > 0) return port;
  } else if (server.bind_to_port(options.host, options.port)) {
    return options.port;
  }
  throw std::runtime_error{
      fmt::format("{} port {} cannot be listened at: another program has the port, it is below "
                  "1024, or the host is none of this computer; name others by --host and --port",
                  options.host, options.port)};
}

/// Stops to listen, and waits for what is asked just now: for ten seconds, or until it is asked to stop once more.
void stop(httplib::Server& server, std::future<bool> const& listens, sigset_t const& stops) {
  using std::chrono::seconds;
  auto const begin = std::chrono::steady_clock::now();
  do {
    server.stop();  // does nothing before it has begun to listen
    timespec const tick{.tv_sec = 0, .tv_nsec = 10'000'000};
    auto const is_asked_again = sigtimedwait(&stops, nullptr, &tick) > 0;
    auto const waited = std::chrono::steady_clock::now() - begin;
    // Who stops a group of processes asks each of them twice.
    if (waited < seconds{1} || (waited < seconds{10} && !is_asked_again)) continue;
    std::fputs("clients that did not come to an end were cut off\n", stderr);
    std::_Exit(0);
  } while (listens.wait_for(seconds{0}) != std::future_status::ready);
}

auto run(Options const& options) -> int {
  auto const stops = block_stops();
  NewestModel newest{fs::absolute(options.run)};
  httplib::Server server;
  server.new_task_queue = [&] { return new httplib::ThreadPool{static_cast<std::size_t>(options.threads)}; };
  server.set_payload_max_length(std::size_t{1} << 20U);
  server.set_keep_alive_max_count(1000);
  server.set_keep_alive_timeout(1);
  server.set_tcp_nodelay(true);
  answer(server, newest);
  auto const port = bind(server, options);
  auto const host = options.host.find(':') == std::string::npos ? options.host : '[' + options.host + ']';
  fmt::print(
      "Serves from {}. Ask it, and stop it by Ctrl-C:\n  curl http://{}:{}/predict --json "
      "'{{\"age\": 38, \"workclass\": \"Private\", \"education\": \"Masters\", \"hours\": null}}'\n",
      newest.get()->name, host, port);
  std::fflush(stdout);
  auto listens = std::async(std::launch::async, [&] {
    try {
      if (server.listen_after_bind()) return true;
    } catch (std::exception const& error) {
      std::fputs(fmt::format("{}\n", error.what()).c_str(), stderr);
    }
    kill(getpid(), SIGTERM);  // it ended by itself
    return false;
  });
  follow(newest, stops);
  stop(server, listens, stops);
  if (listens.get()) return 0;
  throw std::runtime_error{"it can listen no longer: the system has no connections or threads left for it"};
}

}  // namespace

auto main(int argc, char** argv) -> int {
  Options options;
  CLI::App app{"Answers over HTTP by a model that adult_income has trained."};
  app.option_defaults()->always_capture_default();
  app.add_option("--run", options.run, "folder of the run, as runs/adult_income_xgboost_20000");
  app.add_option("--host", options.host, "address to listen at; 0.0.0.0: other computers may ask, too");
  app.add_option("--port", options.port, "port to listen at; 0: any")->check(CLI::Range(0, 65'535));
  app.add_option("--threads", options.threads,
                 "connections that are served at the same time; others wait until one ends")
      ->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (std::exception const& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
