// SPDX-License-Identifier: Apache-2.0
#include <raytrain/core/utf8.hpp>

#include <string>

#include <doctest/doctest.h>

using raytrain::is_utf8;
using raytrain::to_utf8;

TEST_CASE("text of one to four bytes a character is UTF-8, at both ends of each range") {
  for (std::string const text :
       {"", "a", "\x7F", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80", "\xEF\xBF\xBF",
        "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF", "a\xC3\xB6z"}) {
    CAPTURE(text);
    CHECK(is_utf8(text));
    CHECK(to_utf8(text) == text);
  }
}

TEST_CASE("overlong forms, surrogates, lone and missing continuations and numbers above 10FFFF are not UTF-8") {
  for (std::string const text : {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xC2", "\xC2\x41", "\xE0\x9F\xBF", "\xE2\x82",
                                 "\xED\xA0\x80", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"}) {
    CHECK_FALSE(is_utf8(text));
    CHECK_FALSE(is_utf8("good" + text + "good"));
    CHECK(is_utf8(to_utf8(text)));
  }
}

TEST_CASE("only the bytes that are not UTF-8 are replaced, each by U+FFFD") {
  CHECK(to_utf8("a\xFF\xFE\xC3\xB6z") == "a\xEF\xBF\xBD\xEF\xBF\xBD\xC3\xB6z");
  CHECK(to_utf8("a\xE2\x82") == "a\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST_CASE("a zero byte is UTF-8") { CHECK(is_utf8({"\0", 1})); }
