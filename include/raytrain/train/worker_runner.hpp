// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cxxabi.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <typeinfo>
#include <utility>

#include <raytrain/core/stopped.hpp>
#include <raytrain/launch/host.hpp>
#include <raytrain/launch/process_end.hpp>
#include <raytrain/launch/worker.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/train/worker_setup.hpp>

namespace raytrain::detail {

/// Name of a type as one writes it.
[[nodiscard]] inline auto demangled(std::type_info const& type) -> std::string {
  auto status = 0;
  std::unique_ptr<char, decltype(&std::free)> const name{abi::__cxa_demangle(type.name(), nullptr, nullptr, &status),
                                                         &std::free};
  return status == 0 ? name.get() : type.name();
}

/// Text of the exception that is being handled, whatever its type.
[[nodiscard]] inline auto current_exception_text() -> std::string {
  try {
    throw;
  } catch (std::exception const& error) {
    return error.what();
  } catch (std::string const& text) {
    return text;
  } catch (char const* text) {
    return text;
  } catch (...) {
    auto const* const type = abi::__cxa_current_exception_type();
    if (type == nullptr) return "an exception of unknown type";
    return "an exception of type " + demangled(*type);
  }
}

/// Ends a process that the training function has forked and that comes out of it: the rest is the worker's to do.
class ChildEnd {
 public:
  explicit ChildEnd(WorkerLink const& link) : link_{link} {}
  ChildEnd(ChildEnd const&) = delete;
  auto operator=(ChildEnd const&) -> ChildEnd& = delete;
  ~ChildEnd() {
    if (!link_.is_forked()) return;
    say_last_word(
        "raytrain: a process that was forked in the training function has come out of it, and ends; end it there, by "
        "_exit()\n");
    ::_exit(EXIT_FAILURE);
  }

 private:
  WorkerLink const& link_;
};

/// Builds the context, runs the training function in it, and returns whether a stop cut it short.
///
/// The others learn of the end before this worker's last checkpoint is written. After a failure or a stop their waits
/// throw `Stopped`; after a return their waits for this worker throw an error that names it.
template <class B, class Train>
auto run_training(B& backend, Train const& train, WorkerSetup setup) -> bool {
  auto const shared_group = setup.group;
  auto& group = *shared_group;
  auto const& link = setup.link;
  auto const rank = setup.link.placement().world_rank;
  try {
    typename B::Context context = backend.make_context(std::move(setup));
    auto stopped = false;
    try {
      auto const training = [&] {
        ChildEnd const child_end{link};
        train(context);
      };
      if constexpr (requires { backend.call(training); }) {
        backend.call(training);
      } else {
        training();
      }
      group.leave(rank);
    } catch (Stopped const&) {
      stopped = true;
      group.abort();
    } catch (...) {
      group.abort();
      throw;
    }
    context.finish();
    return stopped || context.stop_seen() || link.aborted().stop_requested();
  } catch (...) {
    group.abort();
    throw;
  }
}

/// What a launcher runs on each worker's thread: tells the controller how the worker starts and ends.
inline void run_worker(Worker worker, std::shared_ptr<RunShared const> const& run,
                       std::function<bool(WorkerSetup)> const& training) noexcept {
  auto& link = worker.link;
  auto const group = worker.group;
  auto const rank = link.placement().world_rank;
  auto const host = this_host();
  std::stop_callback const on_stop{link.stop_asked(), [&] { group->request_stop(); }};
  std::stop_callback const on_abort{link.aborted(), [&] { group->abort(); }};
  link.send(Started{rank, host.hostname, host.pid, host.node_ip});
  try {
    auto const stopped = training(WorkerSetup{link, run, group, std::move(worker.collective)});
    link.send(Finished{rank, stopped});
  } catch (Stopped const&) {
    link.send(Finished{rank, true});
  } catch (...) {
    link.send(Failed{rank, host.hostname, current_exception_text()});
  }
}

}  // namespace raytrain::detail
