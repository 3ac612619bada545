// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <raytrain/collective/detail/agreement.hpp>
#include <raytrain/collective/detail/mpi_communicator.hpp>
#include <raytrain/collective/detail/mpi_hosts.hpp>
#include <raytrain/collective/detail/mpi_late_calls.hpp>
#include <raytrain/collective/detail/mpi_library.hpp>
#include <raytrain/collective/detail/task.hpp>
#include <raytrain/collective/mpi_options.hpp>
#include <raytrain/collective/wait_limits.hpp>
#include <raytrain/collective/waiting.hpp>
#include <raytrain/core/element_type.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/identifiers.hpp>

namespace raytrain::detail {

/// Starts operations of MPI and waits for them, as one rank of a communicator: the part that knows of no array.
///
/// Threads: `abort`, `request_stop`, `leave`, `rank` and `size` from any; everything else on the worker's.
class MpiEndpoint {
 public:
  struct Setup {
    MPI_Comm original;
    MpiOptions options{};
    MpiPretence pretence{};
    bool beside_worker = false;  ///< A thread uses it while the worker computes.
  };

  explicit MpiEndpoint(Setup setup)
      : communicator_{setup.original, setup.options.limits},
        options_{std::move(setup.options)},
        pretence_{setup.pretence},
        core_{communicator_.core_use(setup.beside_worker)} {
    check_mpi(MPI_Comm_set_errhandler(control_communicator_.handle(), MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check_options_agree(communicator_, options_);
    late_calls_.emplace(communicator_);
    hosts_.emplace(communicator_, options_, pretence_);
    compared_at_ = Clock::now();
  }
  MpiEndpoint(MpiEndpoint const&) = delete;
  auto operator=(MpiEndpoint const&) -> MpiEndpoint& = delete;
  ~MpiEndpoint() = default;

  [[nodiscard]] auto first_rank_here() const noexcept -> Rank { return communicator_.first_rank_here(); }
  [[nodiscard]] auto rank() const noexcept -> Rank { return communicator_.rank(); }
  [[nodiscard]] auto size() const noexcept -> WorldSize { return communicator_.size(); }
  [[nodiscard]] auto handle() const noexcept -> MPI_Comm { return communicator_.handle(); }
  [[nodiscard]] auto members() const noexcept -> MpiMembers { return {handle(), rank().value, size().value}; }
  [[nodiscard]] auto program_handle() const noexcept -> MPI_Comm { return program_communicator_.handle(); }
  [[nodiscard]] auto options() const noexcept -> MpiOptions const& { return options_; }
  [[nodiscard]] auto pretence() const noexcept -> MpiPretence const& { return pretence_; }
  [[nodiscard]] auto largest_count() const noexcept -> std::size_t { return pretence_.largest_count; }
  [[nodiscard]] auto combines_in_rank_order() const noexcept -> bool {
    return options_.reduction == Reduction::rank_order ||
           (communicator_.is_on_one_host() && pretence_.ranks_per_host == 0);
  }

  [[nodiscard]] auto hosts() const noexcept -> MpiHosts const& { return *hosts_; }

  /// Whether everything goes through memory that all ranks share.
  [[nodiscard]] auto is_on_one_host() const noexcept -> bool {
    return hosts_->memory() != nullptr && hosts_->memory()->size() == size();
  }

  /// Only on the worker's thread: whether no operation has failed.
  [[nodiscard]] auto is_usable() const noexcept -> bool { return agreement_.is_usable(); }

  /// Only on the worker's thread: whether MPI may still write to arrays that were given to an operation.
  [[nodiscard]] auto has_pending() const noexcept -> bool { return !is_on_one_host() && !is_usable() && !has_ended_; }

  void abort() noexcept {
    if (auto const& memory = hosts_->memory()) memory->abort();
    program_communicator_.abandon();
    aborted_.store(true);
    has_news_.store(true);
  }
  void request_stop() noexcept {
    if (is_on_one_host()) hosts_->memory()->request_stop();
    stop_requested_.store(true);
  }
  /// The rank has ended after so many operations between hosts.
  void leave(Rank rank, std::uint64_t operations) noexcept {
    hosts_->leave(rank);
    std::scoped_lock const lock{ended_mutex_};
    if (!ended_ || operations < ended_->operations) ended_ = {rank, operations};
    has_news_.store(true);
  }

  /// What this rank has called between hosts. Only on the worker's thread.
  [[nodiscard]] auto calls() const noexcept -> CallHistory const& { return calls_; }

  [[nodiscard]] auto stop_agreed() const noexcept -> bool {
    return stop_agreed_ || aborted_.load() || (size() == WorldSize{1} && stop_requested_.load());
  }

  /// One operation: `work()` performs what `call` stands for.
  template <class Work>
  void operate(Call const& call, std::span<std::size_t const> counts, Work const& work) {
    try {
      try {
        begin(call, counts);
        work();
      } catch (RankIsLost const&) {
        await_abort();
      }
    } catch (Stopped const&) {
      follow_ranks_of_host();
      throw;
    } catch (Error const& error) {
      if (agreement_.is_usable()) {
        if (error.code() == Errc::rank_mismatch) tell_other_hosts();
        break_up(error.code(), error.happened());
      }
      throw;
    } catch (...) {
      if (agreement_.is_usable()) break_up(Errc::backend, "an exception ended " + to_string(call_));
      throw;
    }
  }

  /// Starts one operation of MPI by `start(&request)` and waits for its end. `bytes` is about what it transfers.
  template <class Start>
  void perform(char const* function, std::size_t bytes, Start const& start) {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(start(&request), function);
    wait(bytes, [&] { return is_over(request); });
  }

  /// Where MPI writes the request of one more operation, valid until the next call; `wait_for_requests` waits for all
  /// of them, which transfer about `bytes`.
  [[nodiscard]] auto new_request() -> MPI_Request& { return buffers_->requests.emplace_back(MPI_REQUEST_NULL); }
  void wait_for_requests(std::size_t bytes) {
    auto& requests = buffers_->requests;
    std::size_t over = 0;
    wait(bytes, [&] {
      while (over < requests.size() && is_over(requests[over])) ++over;
      return over == requests.size();
    });
    requests.clear();
  }

  /// For an operation that has waited so long, here or in memory: throws where it must not wait on. An abort counts
  /// from when it is seen in the operation.
  void check_wait(std::chrono::nanoseconds waited) {
    if (!aborted_.load() && hosts_->is_aborted()) abort();
    if (has_news_.load()) {
      if (aborted_.load()) {
        auto const now = Clock::now();
        if (!abort_seen_) abort_seen_ = now;
        if (!is_cut_off_ && now - *abort_seen_ < last_look_time) return;
        if (!is_cut_off_ && mpi_survives_losses()) {
          revoke();
          if (now - *abort_seen_ < revocation_time) return;  // MPI ends the operation
        }
        break_up(Errc::rank_mismatch, "the run was aborted");
        throw Stopped{};
      }
      refuse_without_ended();
    }
    if (!is_cut_off_ && hosts_->is_broken_for(time_to_find_why)) throw Stopped{};
    if (!options_.check_calls && !is_cut_off_ && waited >= std::min(late_time, options_.limits.timeout / 2))
      compare_late_calls();
    if (waiting_.is_to_warn(waited)) warn_of_missing();
    if (waiting_.is_too_long(waited)) time_out();
  }

  /// For an operation's own messages: the same on ranks that have called the same, and another one, but for chance, on
  /// those that have not. These wait until they compare their calls, instead of getting each other's arrays. Two
  /// operations may have the same, since MPI keeps the messages between two ranks in order.
  [[nodiscard]] auto tag_of_operation() const noexcept -> int {
    constexpr std::uint64_t tags = 32'000;  // of 32,767 that MPI grants
    return first_tag + static_cast<int>(calls_.digest() % tags);
  }

  /// Memory for so many bytes, until the next call for the same use.
  auto scratch(MpiScratch use, std::size_t size_bytes) -> std::byte* {
    auto& memory = buffers_->scratch[static_cast<std::size_t>(use)];
    if (memory.size() < size_bytes) memory.resize(size_bytes);
    return memory.data();
  }

 private:
  using Clock = std::chrono::steady_clock;

  /// Which of the others has ended after the fewest operations.
  struct EndedRank {
    Rank rank;
    std::uint64_t operations;
  };

  static constexpr int header_tag = 1;
  static constexpr int first_tag = 3;  // 2 is that of late calls
  /// Who has waited as long tells the others what it has called.
  static constexpr std::chrono::milliseconds late_time{1000};
  static constexpr auto time_to_find_why = 2 * late_time;  ///< By itself, after another rank of this host has failed.
  /// What an operation that is all but over gets after an abort.
  static constexpr std::chrono::milliseconds last_look_time{50};
  /// And what MPI gets to end one that is revoked.
  static constexpr std::chrono::milliseconds revocation_time{2000};
  /// An agreement costs some microseconds: little beside so many bytes, or once in a millisecond.
  static constexpr std::uint64_t large_bytes = std::uint64_t{1} << 20U;
  static constexpr std::int64_t one_millisecond = 1'000'000;
  static constexpr std::int64_t largest_interval = 32;

  static auto is_over(MPI_Request& request) -> bool {
    int over = 0;
    check_mpi(MPI_Test(&request, &over, MPI_STATUS_IGNORE), "MPI_Test");
    return over != 0;
  }

  [[nodiscard]] auto me() const -> std::string { return "rank " + std::to_string(rank().value); }

  void refuse() const {
    if (aborted_.load()) throw Stopped{};
    if (found_ended_) throw ended_error({.ended = *found_ended_, .waiting = rank()}, to_string(call_));
    agreement_.check_usable(call_, rank());
  }

  // One operation ---------------------------------------------------------------------------------------------------

  void begin(Call const& call, std::span<std::size_t const> counts) {
    auto const begins_another = std::exchange(call_, call).tag != call.tag;  // backward, or leaves one
    waiting_ = Waiting{options_.limits};
    has_told_ = false;
    abort_seen_.reset();
    if (!agreement_.is_usable() || has_news_.load(std::memory_order_relaxed)) [[unlikely]]
      refuse();
    if (size() == WorldSize{1}) return;
    calls_.add(call);
    if (has_news_.load(std::memory_order_relaxed)) [[unlikely]] {
      refuse_without_ended();
      if (aborted_.load()) throw Stopped{};
    }
    if (options_.check_calls) return compare_calls(counts);
    ++operations_;
    bytes_ += call.count * size_bytes(call.element);
    if (begins_another || call.operation == Operation::barrier || call.operation == Operation::duplicate ||
        operations_ >= agreement_interval_ || bytes_ >= large_bytes) {
      compare_calls();
    }
  }

  /// No operation follows one that failed, and memory that MPI may still use is never freed. Only the first reason
  /// counts.
  void break_up(Errc code, std::string const& happened) noexcept {
    communicator_.abandon();
    program_communicator_.abandon();
    control_communicator_.abandon();
    hosts_->break_up();
    if (buffers_ != nullptr) MpiBuffers::keep_for_ever(std::move(buffers_));
    agreement_.make_unusable(code, happened);
  }

  /// After what ended its wait in their memory: somebody has told them to stop, or one of them cannot go on.
  void follow_ranks_of_host() noexcept {
    if (aborted_.load() || hosts_->is_aborted()) return abort();
    if (agreement_.is_usable()) break_up(Errc::rank_mismatch, "another rank of this host has failed");
  }

  // Agreement about what was called, and about a request to stop ------------------------------------------------------

  /// The number of operations until the next one follows from what all ranks know and call, so that ranks that have
  /// called the same come here together. It comes before arrays move, through a communicator of its own, in which
  /// ranks that have not see no other operation.
  void compare_calls() {
    auto const elapsed = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - compared_at_);
    auto const digest = static_cast<std::int64_t>(calls_.digest());
    auto& agreement = buffers_->agreement;
    agreement = {stop_requested_.load() ? 1 : 0, elapsed.count(), digest, ~digest};
    perform("MPI_Iallreduce", 0, [&](MPI_Request* request) {
      return MPI_Iallreduce(MPI_IN_PLACE, agreement.data(), static_cast<int>(agreement.size()), MPI_INT64_T, MPI_MAX,
                            control_communicator_.handle(), request);
    });
    auto const [stop, longest, largest_digest, smallest_digest] = agreement;
    if (largest_digest != ~smallest_digest) [[unlikely]]
      throw_mismatch();
    (void)late_calls_->look(calls_);  // the calls agree: only takes what ranks that waited have sent, which MPI keeps
    stop_agreed_ = stop_agreed_ || stop != 0;
    agreement_interval_ = std::clamp<std::int64_t>(operations_ * one_millisecond / std::max<std::int64_t>(longest, 1),
                                                   1, largest_interval);
    operations_ = 0;
    bytes_ = 0;
    compared_at_ = Clock::now();
  }

  /// All ranks come here.
  [[noreturn]] void throw_mismatch() {
    auto& histories = buffers_->histories;
    histories.assign(size().value, {});
    histories[rank().value] = calls_;
    perform("MPI_Iallgather", 0, [&](MPI_Request* request) {
      return MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, histories.data(), int{sizeof(CallHistory)}, MPI_BYTE,
                            control_communicator_.handle(), request);
    });
    has_ended_ = true;
    communicator_.abandon();  // messages of calls that differ may lie in it
    for (std::uint32_t other = 1; other < size().value; ++other) {
      if (auto const error = CallHistory::mismatch({{0}, histories[0]}, {{other}, histories[other]}))
        agreement_.end_by(*error);
    }
    agreement_.end_by({Errc::rank_mismatch, "collective call", "the ranks do not call the same operations",
                       "make every rank call the same operations, as often"});
  }

  // Waiting -----------------------------------------------------------------------------------------------------------

  template <class Over>
  void wait(std::size_t bytes, Over const& over) {
    Backoff backoff{core_, bytes};
    while (!over()) {
      auto const waited = backoff.pause();
      if (waited.count() != 0 || has_news_.load(std::memory_order_relaxed)) [[unlikely]]
        check_wait(waited);
    }
  }

  /// Nothing can be over without the rank that is lost, and whoever watches the ranks is about to abort the run. MPI is
  /// not used any more once it has ended what was pending.
  [[noreturn]] void await_abort() {
    is_cut_off_ = true;
    has_ended_ = end_requests();
    Backoff backoff{core_};
    while (true) check_wait(backoff.pause());
  }

  /// Whether nothing is left of an operation's messages. Those between this rank and others that are left would still
  /// come, into arrays that are not the operation's any more: MPI ends them when the communicator is revoked.
  [[nodiscard]] auto end_requests() -> bool {
    Backoff backoff{core_};
    auto const begun = Clock::now();
    while (!mpi_forget_ended(buffers_->requests)) {
      if (Clock::now() - begun > revocation_time) return false;
      revoke();
      backoff.pause();
    }
    return true;
  }

  void revoke() noexcept {
    if (std::exchange(is_revoked_, true)) return;
    for (auto const communicator : {handle(), control_communicator_.handle(), hosts_->leaders().handle}) {
      mpi_revoke(communicator);
    }
  }

  /// A rank that has ended has done its part in what it called, and will come to nothing else.
  void refuse_without_ended() {
    {
      std::scoped_lock const lock{ended_mutex_};
      if (!ended_ || ended_->operations >= calls_.operations()) return;
      if (stop_requested_.load()) return abort();  // which it has followed
      found_ended_ = ended_->rank;
    }
    auto const error = ended_error({.ended = *found_ended_, .waiting = rank()}, to_string(call_));
    break_up(error.code(), error.happened());
    throw error;
  }

  /// They do not see what the ranks of this host have found in their memory, and look for it when they wait long.
  void tell_other_hosts() noexcept {
    if (is_on_one_host() || options_.check_calls || std::exchange(has_told_, true)) return;
    try {
      late_calls_->tell(calls_);
    } catch (Error const&) {
      return;  // then their wait ends as `WaitLimits` say
    }
  }

  void compare_late_calls() {
    if (!std::exchange(has_told_, true)) late_calls_->tell(calls_);
    auto const error = late_calls_->look(calls_);
    if (!error) return;
    break_up(error->code(), error->happened());
    throw *error;
  }

  void warn_of_missing() {
    auto const missing = missing_ranks();
    bool const speaks = missing.empty() || rank().value == 0 ||
                        (missing.size() >= rank().value && missing[rank().value - 1] == rank().value - 1);
    if (!speaks) return waiting_.warn_no_more();
    waiting_.warn([&] { return late_warning({missing, options_.limits.warn_after}, rank(), to_string(call_)); });
  }

  [[noreturn]] void time_out() {
    auto const missing = missing_ranks();
    auto const error =
        missing.empty() ? Error{Errc::timed_out, to_string(call_) + " on " + me(),
                                "every rank has come, but not every array within " + time_text(options_.limits.timeout),
                                "look for a rank that has died and for a network that is cut"}
                        : late_error({missing, options_.limits.timeout}, rank(), to_string(call_));
    break_up(error.code(), error.happened());
    throw error;
  }

  // Comparing calls ---------------------------------------------------------------------------------------------------

  /// Those of which nothing is known to have come; none when it is too early to say.
  auto missing_ranks() -> std::vector<std::uint32_t> {
    std::vector<std::uint32_t> missing;
    if (has_told_) return late_calls_->missing(calls_.operations());
    if (!compares_ || is_cut_off_) return missing;
    for (std::uint32_t from = 0; from < size().value; ++from) {
      if (!is_over(buffers_->requests[from])) missing.push_back(from);
    }
    return missing;
  }

  /// One message from each rank to each other one, since of an operation of MPI nobody knows who is missing.
  void compare_calls(std::span<std::size_t const> counts) {
    auto const ranks = size().value;
    auto& headers = buffers_->headers;
    auto& requests = buffers_->requests;
    headers.assign(ranks, {});
    requests.assign(std::size_t{2} * ranks, MPI_REQUEST_NULL);
    headers[rank().value] = {call_, stop_requested_.load() ? 1U : 0U};
    constexpr int bytes = sizeof(MpiCallHeader);
    for (int other = 0; other < static_cast<int>(ranks); ++other) {
      if (static_cast<std::uint32_t>(other) == rank().value) continue;
      auto const at = static_cast<std::size_t>(other);
      check_mpi(MPI_Irecv(&headers[at], bytes, MPI_BYTE, other, header_tag, handle(), &requests[at]), "MPI_Irecv");
      check_mpi(MPI_Isend(&headers[rank().value], bytes, MPI_BYTE, other, header_tag, handle(), &requests[ranks + at]),
                "MPI_Isend");
    }
    compares_ = true;
    wait_for_requests(0);
    compares_ = false;
    auto const call_of = [&](std::uint32_t number) -> Call const& { return headers[number].call; };
    if (auto const odd = Agreement::first_mismatch(size(), call_of)) {
      auto const error = Agreement::mismatch({Rank{0}, call_of(0)}, {*odd, call_of(odd->value)},
                                             [&](Rank of) { return broadcast_counts(of, counts); });
      has_ended_ = true;
      agreement_.end_by(error);
    }
    stop_agreed_ = stop_agreed_ || std::ranges::any_of(headers, [](auto const& header) { return header.stop != 0; });
  }

  auto broadcast_counts(Rank from, std::span<std::size_t const> counts) -> std::vector<std::size_t> {
    static_assert(sizeof(std::size_t) == sizeof(std::uint64_t));
    auto& sent = buffers_->sent_counts;
    sent.assign(size().value, 0);
    if (rank() == from) sent.assign(counts.begin(), counts.end());
    perform("MPI_Ibcast", 0, [&](MPI_Request* request) {
      return MPI_Ibcast(sent.data(), static_cast<int>(sent.size()), MPI_UINT64_T, static_cast<int>(from.value),
                        handle(), request);
    });
    return sent;
  }

  MpiCommunicator communicator_;
  MpiDuplicate program_communicator_{communicator_.handle()};
  MpiDuplicate control_communicator_{communicator_.handle()};
  MpiOptions options_;
  MpiPretence pretence_;
  CoreUse core_;
  std::optional<MpiLateCalls> late_calls_;
  std::optional<MpiHosts> hosts_;
  std::unique_ptr<MpiBuffers> buffers_ = std::make_unique<MpiBuffers>();

  std::atomic<bool> has_news_{false};
  std::atomic<bool> aborted_{false};
  std::atomic<bool> stop_requested_{false};
  std::mutex ended_mutex_;
  std::optional<EndedRank> ended_;

  Call call_{};
  CallHistory calls_;
  Waiting waiting_{options_.limits};
  std::optional<Clock::time_point> abort_seen_;
  bool compares_ = false;
  bool has_told_ = false;
  bool is_revoked_ = false;
  bool is_cut_off_ = false;  ///< MPI ends the operation: a rank is lost, or the communicator revoked.
  bool has_ended_ = false;   ///< And has ended all of it.
  std::optional<Rank> found_ended_;
  Agreement agreement_;

  bool stop_agreed_ = false;
  Clock::time_point compared_at_{};
  std::int64_t operations_ = 0;
  std::uint64_t bytes_ = 0;
  std::int64_t agreement_interval_ = 1;
};

}  // namespace raytrain::detail
