// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include <raytrain/core/inline.hpp>
#include <raytrain/exec/detail/signal_handlers.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto SignalHandlers::take_inbox(::pid_t ignored_sender) -> SignalInbox* {
  [[maybe_unused]] static int const registered =
      pthread_atfork([] { mutex_.lock(); }, [] { mutex_.unlock(); }, [] { mutex_.unlock(); });
  std::lock_guard const lock{mutex_};
  leave_parent();
  for (auto& inbox : inboxes_) {
    if (inbox.taken.exchange(true)) continue;
    while (::sem_trywait(&inbox.wake_up) == 0) {
    }
    for (auto& pending : inbox.pending) pending = 0;
    inbox.ignored_sender = ignored_sender;
    return &inbox;
  }
  return nullptr;
}

RAYTRAIN_INLINE auto SignalHandlers::acquire(SignalInbox& inbox, int signal) -> bool {
  if (signal < 1 || signal >= NSIG) {
    errno = EINVAL;
    return false;
  }
  std::lock_guard const lock{mutex_};
  auto& handled = handled_.at(static_cast<std::size_t>(signal));
  inbox.watched |= SignalInbox::bit(signal);  // before the handler is there, which looks for it
  auto const for_sender = inbox.ignored_sender != 0;
  if ((handled.users++ > 0 && !for_sender) || install(signal, handled, for_sender)) return true;
  auto const error = errno;
  inbox.watched &= ~SignalInbox::bit(signal);
  --handled.users;
  errno = error;
  return false;
}

RAYTRAIN_INLINE void SignalHandlers::release(SignalInbox& inbox, int signal) {
  std::lock_guard const lock{mutex_};
  inbox.watched &= ~SignalInbox::bit(signal);
  auto& handled = handled_.at(static_cast<std::size_t>(signal));
  if (--handled.users > 0) return;
  Action current{};
  sigaction(signal, nullptr, &current);
  if (!is_in_place(current)) return;  // the program has set another one meanwhile
  if (now_ns() >= handled.echoes_until_ns) {
    sigaction(signal, &handled.before, nullptr);
  } else if (handled.before.sa_handler != SIG_DFL) {
    // Calls are interrupted, or not, as by the handler to which the next signal goes.
    current.sa_flags = (current.sa_flags & SA_SIGINFO) | (handled.before.sa_flags & SA_RESTART);
    sigaction(signal, &current, nullptr);
  }
}

RAYTRAIN_INLINE void SignalHandlers::drop_echoes(int signal, std::chrono::nanoseconds duration) {
  handled_.at(static_cast<std::size_t>(signal)).echoes_until_ns = now_ns() + duration.count();
}

RAYTRAIN_INLINE auto SignalHandlers::now_ns() noexcept -> std::int64_t {
  ::timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

RAYTRAIN_INLINE auto SignalHandlers::install(int signal, Handled& handled, bool for_sender) -> bool {
  Action current{};
  Action posting{};
  posting.sa_flags = SA_RESTART;
  posting.sa_handler = &SignalHandlers::on_signal;
  if (for_sender) {
    posting.sa_flags |= SA_SIGINFO;
    posting.sa_sigaction = &SignalHandlers::on_sent_signal;
  }
  sigemptyset(&posting.sa_mask);
  if (sigaction(signal, nullptr, &current) != 0) return false;
  if (!is_in_place(current)) handled.before = current;
  return sigaction(signal, &posting, nullptr) == 0;
}

RAYTRAIN_INLINE void SignalHandlers::handle(int signal, ::siginfo_t const* info) noexcept {
  auto const error = errno;
  auto const& handled = handled_[static_cast<std::size_t>(signal)];
  auto const forked = process_ != ::getpid();
  auto const taken = !forked && handled.users > 0 && post(signal, info);
  if (!taken && (forked || now_ns() >= handled.echoes_until_ns)) call_handler_before(signal, handled.before);
  errno = error;
}

RAYTRAIN_INLINE void SignalHandlers::call_handler_before(int signal, Action const& before) noexcept {
  Action current{};
  sigaction(signal, nullptr, &current);
  if (is_in_place(current)) {
    sigaction(signal, &before, nullptr);
    ::raise(signal);
    return;
  }
  // A handler that the program has set meanwhile calls the one that it found, which is this one: it stays, and the
  // one before gets its turn. After another watch that may be the same one, which would call itself for ever.
  if (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN || before.sa_handler == current.sa_handler) return;
  if ((before.sa_flags & SA_SIGINFO) == 0) before.sa_handler(signal);
}

RAYTRAIN_INLINE auto SignalHandlers::post(int signal, ::siginfo_t const* info) noexcept -> bool {
  auto taken = false;
  for (auto& inbox : inboxes_) {
    if ((inbox.watched & SignalInbox::bit(signal)) == 0) continue;
    taken = true;
    if (::pid_t const ignored = inbox.ignored_sender; ignored != 0 && sender_of(signal, info) == ignored) continue;
    ++inbox.pending[static_cast<std::size_t>(signal)];
    ::sem_post(&inbox.wake_up);
  }
  return taken;
}

RAYTRAIN_INLINE auto SignalHandlers::sender_of(int signal, ::siginfo_t const* info) noexcept -> ::pid_t {
  if (info == nullptr) return 0;
  Action current{};
  sigaction(signal, nullptr, &current);
  return is_in_place(current) ? info->si_pid : 0;  // another handler that calls this one may have no info
}

RAYTRAIN_INLINE void SignalHandlers::leave_parent() {
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

}  // namespace raytrain::detail
