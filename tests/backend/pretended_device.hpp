// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <string>
#include <vector>

/// A device in CPU memory that tells who waits for it. It is of the type XPU, for which Debian's LibTorch has no code;
/// to PrivateUse1 LibTorch 1.13 cannot move a model's parameters.
///
/// Copies are as late as on a device: they run when another operation follows on their stream, or when somebody waits
/// for them. Other operations run at once, behind what their stream has yet to do. Memory that is new, or was given
/// back, is full of bytes that are no number. It is given back behind what is on the stream of who took it, and on
/// those that `record_stream` has named.
namespace pretended_device {

inline constexpr auto type = c10::DeviceType::XPU;

/// Waits of the calling thread for the device since it asked last, each by what it was.
[[nodiscard]] auto take_waits() -> std::vector<std::string>;

/// While it lives no event of which the work is not done yet has happened: who asks for it again and again has to wait.
class Late {
 public:
  Late();
  Late(Late const&) = delete;
  auto operator=(Late const&) -> Late& = delete;
  ~Late() { end(); }

  void end() noexcept;
};

/// While it lives each question for an event is answered with an error, as of a device that is lost.
class Broken {
 public:
  Broken();
  Broken(Broken const&) = delete;
  auto operator=(Broken const&) -> Broken& = delete;
  ~Broken();
};

/// While it lives the device has no room for more than so many bytes at once.
class Full {
 public:
  explicit Full(std::size_t most_bytes);
  Full(Full const&) = delete;
  auto operator=(Full const&) -> Full& = delete;
  ~Full();
};

}  // namespace pretended_device
