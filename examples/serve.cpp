// Answers over HTTP by a model that adult_income has trained: people as lines of JSON in, and for each the probability
// of more than 50,000 out. It takes the newer checkpoints of a training that goes on. Run ./examples/run adult_income,
// then ./examples/run serve, and ask it as it tells.
#include <signal.h>
#include <unistd.h>

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <ctime>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
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
  fs::path run = "runs/adult_income_torch";
  std::string host = "127.0.0.1";
  int port = 8080;
  int threads = 8;
};

struct Model {
  std::string checkpoint;
  Predict predict;
};

/// The model of a run's newest checkpoint.
class NewestModel {
 public:
  /// Errors: where the run has no checkpoint.
  explicit NewestModel(fs::path const& run) : run_{run} { look(); }

  /// Takes the newest checkpoint, where it has another one than that. Errors: it goes on with the one that it has.
  void look() {
    auto const checkpoint = raytrain::Result::from_path(run_).checkpoint();
    if (!checkpoint) throw std::runtime_error{fmt::format("{} has no checkpoint yet: train a while", run_.string())};
    if (model_ && model_->checkpoint == checkpoint->location()) return;
    auto const is_network = run_.filename().string().ends_with("torch");
    auto predict = is_network ? predict_by_network(*checkpoint) : predict_by_trees(*checkpoint);
    auto model = std::make_shared<Model const>(checkpoint->location(), std::move(predict));
    std::lock_guard const lock{mutex_};
    model_ = std::move(model);
  }

  [[nodiscard]] auto get() const -> std::shared_ptr<Model const> {
    std::lock_guard const lock{mutex_};
    return model_;
  }

 private:
  fs::path run_;
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

void answer_error(httplib::Response& response, int status, std::string_view what) {
  response.status = status;
  response.set_content("{\"error\":" + raytrain::json_string(raytrain::to_utf8(what)) + "}\n", "application/json");
}

void answer(httplib::Server& server, NewestModel const& newest) {
  server.Get("/healthz", [&newest](httplib::Request const&, httplib::Response& response) {
    auto const checkpoint = raytrain::json_string(newest.get()->checkpoint);
    response.set_content("{\"status\":\"ok\",\"checkpoint\":" + checkpoint + "}\n", "application/json");
  });
  server.Post("/predict", [&newest](httplib::Request const& request, httplib::Response& response) {
    try {
      auto const rows = raytrain::parse_json_lines(request.body, people_options(), "the request");
      response.set_content(predictions_json(newest.get()->predict(rows)), "application/json");
    } catch (raytrain::Error const& error) {
      auto const is_theirs = error.code() == raytrain::Errc::invalid_data || error.code() == raytrain::Errc::not_found;
      answer_error(response, is_theirs ? 400 : 500, error.what());
    } catch (std::exception const& error) {
      answer_error(response, 500, error.what());
    }
  });
  server.set_error_handler([](httplib::Request const& request, httplib::Response& response) {
    if (!response.body.empty()) return;
    answer_error(response, response.status,
                 fmt::format("{} {}: there is GET /healthz, and POST /predict, with Content-Type: application/json "
                             "and at most 16 MiB",
                             request.method, request.path));
  });
}

/// Until SIGINT or SIGTERM, which all threads have blocked: looks for a newer checkpoint once a second.
void follow(NewestModel& newest, sigset_t const& stops) {
  std::string warned;
  for (timespec const second{.tv_sec = 1, .tv_nsec = 0}; sigtimedwait(&stops, nullptr, &second) < 0;) {
    try {
      auto const before = newest.get();
      newest.look();
      if (newest.get() != before) fmt::print("now from {}\n", newest.get()->checkpoint);
      warned.clear();
    } catch (std::exception const& error) {
      if (warned != error.what()) fmt::print(stderr, "goes on with {}: {}\n", newest.get()->checkpoint, error.what());
      warned = error.what();
    }
    std::fflush(stdout);
  }
}

auto run(Options const& options) -> int {
  sigset_t stops;
  sigemptyset(&stops);
  sigaddset(&stops, SIGINT);
  sigaddset(&stops, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &stops, nullptr);

  NewestModel newest{fs::weakly_canonical(options.run)};
  httplib::Server server;
  server.new_task_queue = [&] { return new httplib::ThreadPool{static_cast<std::size_t>(options.threads)}; };
  server.set_payload_max_length(std::size_t{16} << 20U);
  server.set_keep_alive_max_count(100'000);
  server.set_tcp_nodelay(true);
  // Without these the library lets a second program share the port.
  server.set_socket_options([](socket_t socket) {
    int const yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  answer(server, newest);
  auto const port = options.port == 0                                 ? server.bind_to_any_port(options.host)
                    : server.bind_to_port(options.host, options.port) ? options.port
                                                                      : -1;
  if (port < 0) {
    throw std::runtime_error{
        fmt::format("{}:{} cannot be listened at: another program has the port, or the host is "
                    "none of this computer; name others by --host and --port",
                    options.host, options.port)};
  }
  fmt::print(
      "Serves from {}. Ask it, and stop it by Ctrl-C:\n  curl http://{}:{}/predict --json "
      "'{{\"age\": 38, \"workclass\": \"Private\", \"education\": \"Masters\", \"hours\": null}}'\n",
      newest.get()->checkpoint, options.host, port);
  std::fflush(stdout);
  std::jthread const listens{[&] {
    server.listen_after_bind();
    kill(getpid(), SIGTERM);  // where it ended by itself
  }};
  follow(newest, stops);
  server.stop();
  return 0;
}

}  // namespace

auto main(int argc, char** argv) -> int {
  Options options;
  CLI::App app{"Answers over HTTP by a model that adult_income has trained."};
  app.option_defaults()->always_capture_default();
  app.add_option("--run", options.run, "folder of the run, as runs/adult_income_xgboost");
  app.add_option("--host", options.host, "address to listen at; 0.0.0.0: other computers may ask, too");
  app.add_option("--port", options.port, "port to listen at; 0: any")->check(CLI::Range(0, 65'535));
  app.add_option("--threads", options.threads, "connections that are answered at the same time")
      ->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (std::exception const& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
