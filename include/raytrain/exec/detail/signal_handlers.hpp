// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
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
  ::sem_t wake_up{};
};

/// This process's handlers of watched signals. A watched signal is posted to the inboxes; one that nobody watches any
/// more does what it did before, but for echoes. In a forked child it does that at once. Where the program has set a
/// handler of its own meanwhile that calls this one, only a plain handler from before is called behind it, not one with
/// SA_SIGINFO.
///
/// Threads: any.
class SignalHandlers {
 public:
  static constexpr std::size_t inbox_count = 16;

  /// Null when all are taken.
  [[nodiscard]] static auto take_inbox() -> SignalInbox* {
    [[maybe_unused]] static int const registered =
        pthread_atfork([] { mutex_.lock(); }, [] { mutex_.unlock(); }, [] { mutex_.unlock(); });
    std::lock_guard const lock{mutex_};
    leave_parent();
    for (auto& inbox : inboxes_) {
      if (inbox.taken.exchange(true)) continue;
      while (::sem_trywait(&inbox.wake_up) == 0) {
      }
      for (auto& pending : inbox.pending) pending = 0;
      return &inbox;
    }
    return nullptr;
  }

  static void give_back(SignalInbox& inbox) { inbox.taken = false; }

  /// False, with `errno`, when the signal cannot be caught.
  [[nodiscard]] static auto acquire(SignalInbox& inbox, int signal) -> bool {
    if (signal < 1 || signal >= NSIG) {
      errno = EINVAL;
      return false;
    }
    std::lock_guard const lock{mutex_};
    auto& handled = handled_.at(static_cast<std::size_t>(signal));
    inbox.watched |= SignalInbox::bit(signal);  // before the handler is there, which looks for it
    if (handled.users++ > 0 || install(signal, handled)) return true;
    auto const error = errno;
    inbox.watched &= ~SignalInbox::bit(signal);
    --handled.users;
    errno = error;
    return false;
  }

  static void release(SignalInbox& inbox, int signal) {
    std::lock_guard const lock{mutex_};
    inbox.watched &= ~SignalInbox::bit(signal);
    auto& handled = handled_.at(static_cast<std::size_t>(signal));
    if (--handled.users > 0) return;
    Action current{};
    sigaction(signal, nullptr, &current);
    if (current.sa_handler != &SignalHandlers::on_signal) return;  // the program has set another one meanwhile
    if (now_ns() >= handled.echoes_until_ns) {
      sigaction(signal, &handled.before, nullptr);
    } else if (handled.before.sa_handler != SIG_DFL) {
      // Calls are interrupted, or not, as by the handler to which the next signal goes.
      current.sa_flags = handled.before.sa_flags & SA_RESTART;
      sigaction(signal, &current, nullptr);
    }
  }

  /// For this long, from now on, a signal that nobody watches any more is an echo of one that was taken: Slurm sends
  /// two SIGTERM, a shell and the kernel one SIGHUP each.
  static void drop_echoes(int signal, std::chrono::nanoseconds duration) {
    handled_.at(static_cast<std::size_t>(signal)).echoes_until_ns = now_ns() + duration.count();
  }

 private:
  using Action = struct sigaction;

  struct Handled {
    std::atomic<int> users;
    std::atomic<std::int64_t> echoes_until_ns;
    Action before;  ///< Not changed while the handler is there.
  };

  [[nodiscard]] static auto now_ns() noexcept -> std::int64_t {
    ::timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
  }

  [[nodiscard]] static auto install(int signal, Handled& handled) -> bool {
    Action current{};
    Action posting{};
    posting.sa_handler = &SignalHandlers::on_signal;
    posting.sa_flags = SA_RESTART;
    sigemptyset(&posting.sa_mask);
    if (sigaction(signal, nullptr, &current) != 0) return false;
    if (current.sa_handler != &SignalHandlers::on_signal) handled.before = current;
    return sigaction(signal, &posting, nullptr) == 0;
  }

  // The handler: it calls nothing but what a handler may call.
  static void on_signal(int signal) noexcept {
    auto const error = errno;
    auto const& handled = handled_[static_cast<std::size_t>(signal)];
    auto const forked = process_ != ::getpid();
    auto const taken = !forked && handled.users > 0 && post(signal);
    if (!taken && (forked || now_ns() >= handled.echoes_until_ns)) call_handler_before(signal, handled.before);
    errno = error;
  }

  static void call_handler_before(int signal, Action const& before) noexcept {
    Action current{};
    sigaction(signal, nullptr, &current);
    if (current.sa_handler == &SignalHandlers::on_signal) {
      sigaction(signal, &before, nullptr);
      ::raise(signal);
      return;
    }
    // A handler that the program has set meanwhile calls the one that it found, which is this one: it stays, and the
    // one before gets its turn. After another watch that may be the same one, which would call itself for ever.
    if (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN || before.sa_handler == current.sa_handler) return;
    if ((before.sa_flags & SA_SIGINFO) == 0) before.sa_handler(signal);
  }

  // False when no inbox is for it.
  static auto post(int signal) noexcept -> bool {
    auto taken = false;
    for (auto& inbox : inboxes_) {
      if ((inbox.watched & SignalInbox::bit(signal)) == 0) continue;
      ++inbox.pending[static_cast<std::size_t>(signal)];
      ::sem_post(&inbox.wake_up);
      taken = true;
    }
    return taken;
  }

  // In a forked child nobody watches what the parent's threads did.
  static void leave_parent() {
    if (process_ == ::getpid()) return;
    for (auto& inbox : inboxes_) {
      inbox.watched = 0;
      inbox.taken = false;
    }
    for (auto& handled : handled_) {
      handled.users = 0;
      handled.echoes_until_ns = 0;
    }
    process_ = ::getpid();  // last: from now on the handler looks at these
  }

  static inline std::mutex mutex_;
  static inline std::atomic<::pid_t> process_{0};
  static inline std::array<SignalInbox, inbox_count> inboxes_;
  static inline std::array<Handled, NSIG> handled_;
};

}  // namespace raytrain::detail
