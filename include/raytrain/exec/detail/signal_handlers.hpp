// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <semaphore.h>
#include <signal.h>
#include <sys/types.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace raytrain::detail {

/// Where the signals of one watcher wait. It outlives the watcher, since a handler may still be about to post.
struct SignalInbox {
  SignalInbox() { ::sem_init(&wake_up, 0, 0); }

  [[nodiscard]] static auto bit(int signal) noexcept -> std::uint64_t { return std::uint64_t{1} << (signal - 1); }

  std::atomic<bool> taken{false};
  std::atomic<std::uint64_t> watched{0};                   ///< One bit for each signal that its watcher takes.
  std::array<std::atomic<std::uint32_t>, NSIG> pending{};  ///< How often each came that was not taken yet.
  std::atomic<::pid_t> ignored_sender{0};                  ///< What it sends is dropped; 0: no process.
  ::sem_t wake_up{};
};

/// This process's handlers of watched signals. A watched signal is posted to the inboxes; one that nobody watches any
/// more does what it did before, but for echoes. In a forked child it does that at once. Where the program has set a
/// handler of its own meanwhile that calls this one, the sender is not known, and only a plain handler from before is
/// called behind it, not one with SA_SIGINFO.
///
/// Threads: any.
class SignalHandlers {
 public:
  static constexpr std::size_t inbox_count = 16;

  /// Null when all are taken.
  [[nodiscard]] static auto take_inbox(::pid_t ignored_sender) -> SignalInbox*;

  static void give_back(SignalInbox& inbox) { inbox.taken = false; }

  /// False, with `errno`, when the signal cannot be caught.
  [[nodiscard]] static auto acquire(SignalInbox& inbox, int signal) -> bool;

  static void release(SignalInbox& inbox, int signal);

  /// For this long, from now on, a signal that nobody watches any more is an echo of one that was taken: Slurm sends
  /// two SIGTERM, a shell and the kernel one SIGHUP each.
  static void drop_echoes(int signal, std::chrono::nanoseconds duration);

 private:
  using Action = struct sigaction;

  struct Handled {
    std::atomic<int> users;
    std::atomic<std::int64_t> echoes_until_ns;
    Action before;  ///< Not changed while the handler is there.
  };

  [[nodiscard]] static auto now_ns() noexcept -> std::int64_t;

  [[nodiscard]] static auto install(int signal, Handled& handled, bool for_sender) -> bool;

  // The handler: it calls nothing but what a handler may call.
  static void on_signal(int signal) noexcept { handle(signal, nullptr); }

  // The handler while a watcher ignores a sender. A program's own handler may call the one that it has found as
  // `on_signal`, so it is not there without need.
  static void on_sent_signal(int signal, ::siginfo_t* info, void*) noexcept { handle(signal, info); }

  static void handle(int signal, ::siginfo_t const* info) noexcept;

  [[nodiscard]] static auto is_in_place(Action const& action) noexcept -> bool {
    return action.sa_handler == &SignalHandlers::on_signal || action.sa_sigaction == &SignalHandlers::on_sent_signal;
  }

  static void call_handler_before(int signal, Action const& before) noexcept;

  // False when no inbox is for it.
  static auto post(int signal, ::siginfo_t const* info) noexcept -> bool;

  // 0 when it is not known.
  static auto sender_of(int signal, ::siginfo_t const* info) noexcept -> ::pid_t;

  // In a forked child nobody watches what the parent's threads did.
  static void leave_parent();

  static inline std::mutex mutex_;
  static inline std::atomic<::pid_t> process_{0};
  static inline std::array<SignalInbox, inbox_count> inboxes_;
  static inline std::array<Handled, NSIG> handled_;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/exec/detail/signal_handlers-inl.hpp>
#endif
