// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cxxabi.h>

#include <cstddef>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <typeinfo>

#include <raytrain/core/current_error.hpp>
#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto demangled(char const* name) -> std::string {
  auto status = 0;
  std::unique_ptr<char, decltype(&std::free)> const text{abi::__cxa_demangle(name, nullptr, nullptr, &status),
                                                         &std::free};
  return status == 0 ? text.get() : name;
}

RAYTRAIN_INLINE auto current_exception_text() -> std::string {
  try {
    throw;
  } catch (std::exception const& error) {
    auto const* const text = error.what();
    if (text != nullptr && *text != 0) return text;
    return "an exception without text, of type " + demangled(typeid(error).name());
  } catch (std::string const& text) {
    return text;
  } catch (char const* text) {
    return text == nullptr ? "a null pointer to a text" : text;
  } catch (...) {
    auto const* const type = abi::__cxa_current_exception_type();
    if (type == nullptr) return "an exception of unknown type";
    return "an exception of type " + demangled(type->name());
  }
}

RAYTRAIN_INLINE auto current_error() -> ErrorInfo {
  constexpr std::size_t most_bytes = 64 << 10U;  // of a part, so that it fits into any message
  try {
    throw;
  } catch (Error const& error) {
    return ErrorInfo{error}.with_short_texts(most_bytes);
  } catch (...) {
    return ErrorInfo{Errc::exception, {}, current_exception_text()}.with_short_texts(most_bytes);
  }
}

}  // namespace raytrain::detail
