// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace raytrain::detail {

/// Opens /dev/null in place of stdin, stdout or stderr if the program was started without it. Otherwise the next file
/// that is opened takes its number, and what the program prints goes into that file.
void open_standard_streams() noexcept;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/core/standard_streams-inl.hpp>
#endif
