// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/detail/data_file.hpp>
#include <raytrain/data/detail/read_body.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE void check_held(DataFile const& file, BodyPromise const& promise, std::uint64_t held) {
  auto const promised = promise.header_bytes + promise.data_bytes;
  if (held == promised) return;
  throw Error{Errc::invalid_data, promise.attempted,
              fmt::format("its header promises {}, {} bytes in all, and it holds {}{}", promise.description, promised,
                          held, file.is_compressed() ? " once inflated" : ""),
              held < promised ? "it is cut short: fetch it again" : "something follows the data: fetch it again"};
}

[[nodiscard]] RAYTRAIN_INLINE auto read_data(DataFile& file, BodyPromise const& promise)
    -> std::shared_ptr<std::byte[]> {
  auto const data_bytes = static_cast<std::size_t>(promise.data_bytes);
  std::shared_ptr<std::byte[]> data = std::make_unique_for_overwrite<std::byte[]>(data_bytes);
  auto const got = file.read(std::span{data.get(), data_bytes});
  // The end must be asked for even when all is there: a compressed file's checksum is only looked at behind its last
  // byte.
  check_held(file, promise, promise.header_bytes + got + file.skip_rest());
  return data;
}

RAYTRAIN_INLINE auto read_body(DataFile& file, BodyPromise const& promise) -> std::shared_ptr<std::byte[]> {
  if (file.may_hold(promise.header_bytes + promise.data_bytes)) return read_data(file, promise);
  check_held(file, promise, file.is_compressed() ? promise.header_bytes + file.skip_rest() : file.disk_bytes());
  DataFile again{file.path()};
  std::vector<std::byte> header(static_cast<std::size_t>(promise.header_bytes));
  (void)again.read(header);
  return read_data(again, promise);
}

}  // namespace raytrain::detail
