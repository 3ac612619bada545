// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <raytrain/core/error.hpp>

namespace raytrain::detail {

/// The name of a type or a function as one writes it, from the one that the compiler gives it; that one if it is none.
[[nodiscard]] auto demangled(char const* name) -> std::string;

/// Text of the exception that is being handled, whatever its type.
[[nodiscard]] auto current_exception_text() -> std::string;

/// The exception that is being handled, without rank and host; one that is no `Error` has its text as what happened. Of
/// each part at most 64 KiB.
[[nodiscard]] auto current_error() -> ErrorInfo;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/core/current_error-inl.hpp>
#endif
