// SPDX-License-Identifier: Apache-2.0
#include <raytrain/core/bytes.hpp>

#include <string>

#include <doctest/doctest.h>

TEST_CASE("text seen as bytes and back is the same text, with its zero bytes") {
  std::string const text{"a\0\xFF", 3};
  auto const bytes = raytrain::bytes_of(text);
  CHECK(bytes.size() == 3);
  CHECK(bytes[2] == std::byte{0xFF});
  CHECK(raytrain::text_of(bytes) == text);
}

TEST_CASE("no text is no bytes") {
  CHECK(raytrain::bytes_of({}).empty());
  CHECK(raytrain::text_of({}).empty());
}
