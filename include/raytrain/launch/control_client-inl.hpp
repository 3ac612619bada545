// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/exec/channel.hpp>
#include <raytrain/exec/executor.hpp>
#include <raytrain/exec/sockets.hpp>
#include <raytrain/launch/control_client.hpp>
#include <raytrain/launch/detail/control_frames.hpp>
#include <raytrain/launch/detail/control_outbox.hpp>
#include <raytrain/launch/detail/handshake.hpp>
#include <raytrain/message/codec.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

RAYTRAIN_INLINE ControlClient::ControlClient(Options options, Events events)
    : options_{std::move(options)}, events_{std::move(events)} {
  if (options_.descriptor >= 0) targets_.push_back({{}, {}});
  for (auto const& text : options_.addresses) targets_.push_back({SocketAddress{text}, {}});
  std::ranges::stable_partition(targets_, [](Target const& it) { return !it.address || it.address->is_unix(); });
  executor_.run(connect());
  thread_ = std::thread{[this] { executor_.run(serve()); }};
}

RAYTRAIN_INLINE auto ControlClient::send(WorkerMessage message) -> bool {
  auto frame = std::make_shared<Bytes const>(encode(message));
  if (executor_.runs_here()) return outbox_.push(std::move(frame));
  return outbox_.push_when_below(options_.max_unwritten_bytes, std::move(frame));
}

RAYTRAIN_INLINE void ControlClient::close() {
  if (executor_.runs_here()) {
    throw Error{Errc::invalid_call, "ControlClient::close", "called inside an event, for whose end it would wait",
                "close it on another thread"};
  }
  std::lock_guard const lock{close_mutex_};
  if (!thread_.joinable()) return;
  close_asked_.close();
  thread_.join();
}

RAYTRAIN_INLINE void ControlClient::Target::timeout(std::string text) {
  outcome = std::move(text);
  timed_out = true;
}

RAYTRAIN_INLINE void ControlClient::refuse_unless_accepted(detail::HandshakeView const& answer) const {
  switch (static_cast<detail::HandshakeStatus>(answer.number)) {
    case detail::HandshakeStatus::accepted: return;
    case detail::HandshakeStatus::no_such_rank:
      throw Error{Errc::invalid_config, attempted(), "the controller has no such rank",
                  "start as many workers as it expects, with ranks from 0"};
    case detail::HandshakeStatus::rank_taken:
      throw Error{Errc::invalid_config, attempted(), "the controller has or had a worker of this rank already",
                  "give each worker a rank of its own, and start it once"};
    case detail::HandshakeStatus::other_version: break;
  }
  throw Error{Errc::bad_message, attempted(),
              "the controller has protocol version " + std::to_string(answer.version) + ", and this side has " +
                  std::to_string(protocol_version),
              "run the same build on every host"};
}

RAYTRAIN_INLINE auto ControlClient::attempted() const -> std::string {
  return "connecting rank " + std::to_string(options_.rank.value) + " to its controller";
}

RAYTRAIN_INLINE void ControlClient::throw_not_connected() const {
  std::string outcomes;
  for (auto const& target : targets_) {
    outcomes += (outcomes.empty() ? "" : ", ") + (target.address ? target.address->text() : "its descriptor") + " (" +
                target.outcome + ')';
  }
  auto const timed_out = std::ranges::any_of(targets_, &Target::timed_out);
  throw Error{timed_out ? Errc::timed_out : Errc::io, attempted(),
              targets_.empty()
                  ? "no address is given"
                  : "no success within " + std::to_string(options_.connect_limit.count()) + " ms at " + outcomes,
              "see whether the controller still runs and expects this rank, and whether this host may connect to "
              "that address and port"};
}

RAYTRAIN_INLINE auto ControlClient::take(detail::ControlFrames<ControllerMessage>& frames) -> bool {
  while (auto item = frames.next()) {
    if (std::holds_alternative<detail::Goodbye>(*item)) return true;
    auto* const message = std::get_if<ControllerMessage>(&*item);
    if (message != nullptr && !closing_) events_.on_message(std::move(*message));
  }
  return false;
}

}  // namespace raytrain
