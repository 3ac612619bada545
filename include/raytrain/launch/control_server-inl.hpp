// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/file_descriptor.hpp>
#include <raytrain/core/identifiers.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/exec/channel.hpp>
#include <raytrain/exec/executor.hpp>
#include <raytrain/exec/scope.hpp>
#include <raytrain/exec/sockets.hpp>
#include <raytrain/exec/timer.hpp>
#include <raytrain/launch/control_server.hpp>
#include <raytrain/launch/detail/control_outbox.hpp>
#include <raytrain/launch/detail/control_session.hpp>
#include <raytrain/launch/detail/rejected_log.hpp>
#include <raytrain/launch/host.hpp>
#include <raytrain/message/codec.hpp>
#include <raytrain/message/message.hpp>

namespace raytrain {

RAYTRAIN_INLINE ControlServer::ControlServer(Options options, Events events)
    : options_{std::move(options)}, events_{std::move(events)}, strangers_told_{events_.on_stranger} {
  check_options();
  if (options_.unix_socket_too) {
    listeners_.push_back(std::make_unique<SocketListener>(executor_));
    addresses_.push_back(listeners_.back()->address().text());
  }
  if (options_.listens) {
    auto const listen_ip = options_.interface_address.empty() ? "0.0.0.0" : options_.interface_address;
    SocketAddress const wanted{"tcp:" + listen_ip + ':' + std::to_string(options_.port)};
    listeners_.push_back(std::make_unique<SocketListener>(executor_, wanted));
    auto const shown_ip = options_.interface_address.empty() ? this_host().node_ip : options_.interface_address;
    addresses_.push_back("tcp:" + shown_ip + ':' + std::to_string(listeners_.back()->address().port()));
  }
  for (auto rank = options_.first_rank.value; rank < options_.world.value; ++rank) {
    peers_.push_back(std::make_unique<Peer>(executor_, Rank{rank}));
  }
  awaited_ = peers_.size();
  try {
    thread_ = std::thread{[this] { executor_.run(serve()); }};
  } catch (std::system_error const& error) {
    throw Error{Errc::worker_failed, "starting the thread of the controller's connections", error.code().message(),
                "raise the limit on processes (ulimit -u)"};
  }
}

RAYTRAIN_INLINE void ControlServer::check_rank(char const* function, Rank rank) const {
  if (rank >= options_.first_rank && rank.value < options_.world.value) return;
  throw Error{Errc::invalid_call, std::string{"ControlServer::"} + function,
              "rank " + std::to_string(rank.value) + " is none of " + std::to_string(options_.first_rank.value) +
                  " to " + std::to_string(options_.world.value - 1)};
}

RAYTRAIN_INLINE void ControlServer::tell(Rank rank, ControllerMessage const& message) {
  check_rank("tell", rank);
  push(*peer_of(rank), std::make_shared<Bytes const>(encode(message)));
}

RAYTRAIN_INLINE void ControlServer::adopt(Rank rank, int descriptor) {
  FileDescriptor taken{descriptor};
  check_rank("adopt", rank);
  auto const answer = std::make_shared<std::promise<std::optional<ErrorInfo>>>();
  if (!requests_.push({rank, descriptor, answer})) {
    throw Error{Errc::invalid_call, "ControlServer::adopt", "the server is closed"};
  }
  (void)taken.release();
  if (auto const refusal = answer->get_future().get()) {
    throw Error{refusal->code, refusal->attempted, refusal->happened, refusal->remedy};
  }
}

RAYTRAIN_INLINE auto ControlServer::stream_of(Request const& request) -> std::optional<SocketStream> {
  try {
    return SocketStream{executor_, request.adopted, "the process of rank " + std::to_string(request.rank.value)};
  } catch (std::system_error const& error) {
    request.refusal->set_value(
        ErrorInfo{Errc::io, "taking over the connection to rank " + std::to_string(request.rank.value),
                  error.code().message(), "raise the limits on open files (ulimit -n) and on memory"});
    return std::nullopt;
  }
}

RAYTRAIN_INLINE void ControlServer::take_over(Request const& request, Scope& connections) {
  auto& peer = peer_of(request.rank);
  auto stream = stream_of(request);
  if (!stream) return;
  if (peer->connection != nullptr) {
    request.refusal->set_value(ErrorInfo{Errc::invalid_call, "ControlServer::adopt",
                                         "rank " + std::to_string(request.rank.value) + " is connected already"});
    return;
  }
  if (!peer->awaited) ++awaited_;
  replaced_.push_back(std::exchange(peer, std::make_unique<Peer>(executor_, request.rank)));
  connections.spawn(serve_connection(*std::move(stream), request.rank));
  request.refusal->set_value(std::nullopt);
}

RAYTRAIN_INLINE void ControlServer::tell_all(ControllerMessage const& message, std::optional<WorldSize> world) {
  auto const frame = std::make_shared<Bytes const>(encode(message));
  for (auto& peer : peers_) {
    if (!world || peer->rank.value < world->value) push(*peer, frame);
  }
}

RAYTRAIN_INLINE void ControlServer::close() {
  if (executor_.runs_here()) {
    throw Error{Errc::invalid_call, "ControlServer::close", "called inside an event, for whose end it would wait",
                "close it on another thread"};
  }
  std::lock_guard const lock{close_mutex_};
  if (!thread_.joinable()) return;
  requests_.close();
  thread_.join();
}

RAYTRAIN_INLINE void ControlServer::Connection::end(std::string reason) {
  if (why.empty()) why = std::move(reason);
  close();
  retry.cancel();
}

RAYTRAIN_INLINE void ControlServer::Connection::close() {
  if (outbox != nullptr) outbox->close();
  stream.close();
}

RAYTRAIN_INLINE void ControlServer::check_options() const {
  auto const refuse = [](std::string const& field, std::string const& happened) {
    throw Error{Errc::invalid_config, "ControlServer::Options::" + field, happened};
  };
  if (options_.world.value == 0) refuse("world", "must be at least 1 (got 0)");
  if (options_.first_rank.value >= options_.world.value) {
    refuse("first_rank", "must be below the world's size, " + std::to_string(options_.world.value) + " (got " +
                             std::to_string(options_.first_rank.value) + ")");
  }
  if (options_.max_strangers == 0) refuse("max_strangers", "must be at least 1 (got 0)");
  if (options_.heartbeat_interval <= std::chrono::milliseconds{0}) {
    refuse("heartbeat_interval",
           "must be positive (got " + std::to_string(options_.heartbeat_interval.count()) + " ms)");
  }
  if (options_.silence_limit <= options_.heartbeat_interval) {
    refuse("silence_limit", "must be longer than heartbeat_interval, " +
                                std::to_string(options_.heartbeat_interval.count()) + " ms (got " +
                                std::to_string(options_.silence_limit.count()) + " ms)");
  }
}

RAYTRAIN_INLINE void ControlServer::push(Peer& peer, detail::ControlOutbox::Frame frame) {
  if (!peer.outbox.push(std::move(frame)) || peer.outbox.bytes() <= options_.max_unwritten_bytes) return;
  peer.outbox.close();
  requests_.push({peer.rank});
}

RAYTRAIN_INLINE void ControlServer::drop_unauthenticated() {
  auto const silent =
      std::ranges::find_if(strangers_, [](Connection const* it) { return !it->session.has_challenged(); });
  auto const chosen = silent == strangers_.end() ? strangers_.begin() : silent;
  auto* const connection = *chosen;
  strangers_.erase(chosen);
  connection->end("did not end the handshake, and made way for others");
}

RAYTRAIN_INLINE auto ControlServer::is_own(Connection const& connection, WorkerMessage const& message) const -> bool {
  if (events_.is_own) return events_.is_own(*connection.rank, message);
  return sender_of(message) == connection.rank;
}

RAYTRAIN_INLINE auto ControlServer::deliver(Connection& connection, WorkerMessage& message) -> bool {
  return closing_ || events_.on_message(*connection.rank, message);
}

RAYTRAIN_INLINE void ControlServer::stop_awaiting(Peer& peer) {
  peer.awaited = false;
  if (--awaited_ == 0) accepting_.cancel();
}

RAYTRAIN_INLINE void ControlServer::finish_connection(Connection& connection) {
  if (!connection.rank) {
    strangers_.remove(&connection);
    if (connection.adopted_as) {
      stop_awaiting(*peer_of(*connection.adopted_as));
      tell_lost(*connection.adopted_as, connection.why, connection.is_broken);
    } else if (!closing_) {
      strangers_told_.tell(connection.stream.peer() + ' ' + connection.why);
    }
    return;
  }
  peer_of(*connection.rank)->connection = nullptr;
  if (!connection.said_goodbye) {
    tell_lost(*connection.rank, connection.why, connection.is_broken);
  } else if (!closing_ && events_.on_goodbye) {
    events_.on_goodbye(*connection.rank);
  }
}

RAYTRAIN_INLINE void ControlServer::tell_lost(Rank rank, std::string const& why, bool is_broken) {
  if (!closing_ && events_.on_lost) events_.on_lost(rank, {"its connection " + why, is_broken});
}

RAYTRAIN_INLINE void ControlServer::give_up_peer(Peer& peer) {
  auto const why = "was given up: more than " + std::to_string(options_.max_unwritten_bytes) +
                   " bytes wait for it, which its process does not read";
  auto const adopted =
      std::ranges::find_if(strangers_, [&](Connection const* it) { return it->adopted_as == peer.rank; });
  if (peer.connection != nullptr) {
    peer.connection->end(why);
  } else if (adopted != strangers_.end()) {
    (*adopted)->end(why);  // by which the rank is lost
  } else if (peer.awaited) {
    stop_awaiting(peer);
    tell_lost(peer.rank, why);
  }
}

}  // namespace raytrain
