// SPDX-License-Identifier: Apache-2.0
#include <raytrain/launch/detail/handshake.hpp>

#include <array>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include <doctest/doctest.h>

#include <raytrain/core/bytes.hpp>

using namespace raytrain;

TEST_CASE("hashes are those that the authors of SipHash publish") {
  // The key is 00 01 ... 0f, and the data are as many of 00 01 02 ... as the first number says.
  constexpr std::array<std::pair<std::size_t, std::string_view>, 9> published{{
      {0, "a3817f04ba25a8e66df67214c7550293"},
      {1, "da87c1d86b99af44347659119b22fc45"},
      {7, "a1f1ebbed8dbc153c0b84aa61ff08239"},
      {8, "3b62a9ba6258f5610f83e264f31497b4"},
      {9, "264499060ad9baabc47f8b02bb6d71ed"},
      {15, "5493e99933b0a8117e08ec0f97cfc3d9"},
      {16, "6ee2a4ca67b054bbfd3315bf85230577"},
      {32, "7c3956ca5eeafc3e363e9d556546eb68"},
      {63, "5150d1772f50834a503e069a973fbd7c"},
  }};
  std::array<std::byte, 64> data{};
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i);
  std::span<std::byte const, 16> const key{data.data(), 16};
  for (auto const& [size, expected] : published) {
    std::string hex;
    for (auto const byte : detail::sip_hash(key, BytesView{data}.first(size))) {
      std::array<char, 3> digits{};
      std::snprintf(digits.data(), digits.size(), "%02x", std::to_integer<unsigned>(byte));
      hex += digits.data();
    }
    CHECK(hex == expected);
  }
}
