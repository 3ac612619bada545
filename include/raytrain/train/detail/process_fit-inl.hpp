// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <system_error>
#include <variant>

#include <raytrain/core/bytes.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/file_descriptor.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/worker_process.hpp>
#include <raytrain/message/codec.hpp>
#include <raytrain/message/frame.hpp>
#include <raytrain/message/message.hpp>
#include <raytrain/train/detail/process_fit.hpp>

namespace raytrain::detail {

/// Of this process.
struct ProcessFits {
  std::atomic<bool> is_running = false;
  std::uint32_t count = 0;
  FileDescriptor results{};
};

RAYTRAIN_INLINE auto process_fits() -> ProcessFits& {
  static ProcessFits fits;
  return fits;
}

[[noreturn]] RAYTRAIN_INLINE void fail_with_results(char const* what, std::string const& happened) {
  throw Error{Errc::io, std::string{what} + " the results of earlier calls of fit()", happened};
}

RAYTRAIN_INLINE ProcessFit::ProcessFit() {
  auto& fits = process_fits();
  if (!fits.is_running.exchange(true)) {
    number_ = ++fits.count;
    return;
  }
  throw Error{Errc::invalid_call, "fit() with a supervisor", "another one of this process has not returned",
              is_worker_process() ? "train with Launch::threads inside a worker" : "call one after the other"};
}

RAYTRAIN_INLINE ProcessFit::~ProcessFit() { process_fits().is_running = false; }

RAYTRAIN_INLINE auto ProcessFit::is_running() noexcept -> bool { return process_fits().is_running; }

RAYTRAIN_INLINE auto ProcessFit::results() const -> int {
  auto& fits = process_fits();
  if (!fits.results.is_open()) fits.results = FileDescriptor{::memfd_create("raytrain results", MFD_CLOEXEC)};
  if (!fits.results.is_open()) fail_with_results("keeping", std::error_code{errno, std::generic_category()}.message());
  return fits.results.get();
}

RAYTRAIN_INLINE void ProcessFit::keep(Ended const& ended) const {
  auto const frame = encode(ControllerMessage{ended});
  auto const count = ::write(results(), frame.data(), frame.size());
  if (count != static_cast<::ssize_t>(frame.size())) fail_with_results("keeping", "there is no memory for them");
}

RAYTRAIN_INLINE auto ProcessFit::result(std::uint32_t fit, int results) const -> std::optional<Ended> {
  if (number_ == fit) return std::nullopt;
  FrameDecoder frames;
  std::array<std::byte, std::size_t{64} << 10U> room{};
  std::uint32_t number = 0;
  ::off_t read = 0;
  while (true) {
    auto const count = ::pread(results, room.data(), room.size(), read);
    if (count <= 0) break;
    read += count;
    frames.feed(BytesView{room}.first(static_cast<std::size_t>(count)));
    while (auto const payload = frames.next()) {
      if (++number == number_) return std::get<Ended>(decode<ControllerMessage>(*payload));
    }
  }
  throw Error{Errc::invalid_call, "fit() with a supervisor",
              "this worker process has come to call " + std::to_string(number_) + ", and is started for call " +
                  std::to_string(fit),
              "let main make the same calls of fit() in each worker process as in the program itself"};
}

}  // namespace raytrain::detail
