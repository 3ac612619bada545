// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>

namespace raytrain {

/// Thrown on a worker's thread by a call that would wait or go on although the run is being stopped.
///
/// It unwinds the training function; a worker that ends by it has not failed. Not an `Error`: who catches those lets
/// it pass. Who catches every exception should throw it on, since every later collective throws it again.
class Stopped : public std::exception {
 public:
  [[nodiscard]] auto what() const noexcept -> char const* override { return "the run is being stopped"; }
};

}  // namespace raytrain
