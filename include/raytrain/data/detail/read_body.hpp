// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <raytrain/data/detail/data_file.hpp>

namespace raytrain::detail {

/// What a file of numbers says of itself.
struct BodyPromise {
  std::string attempted;    ///< Of errors: "read IDX file 'x'".
  std::string description;  ///< "60000 x 28 x 28 of uint8".
  std::uint64_t header_bytes{};
  std::uint64_t data_bytes{};
};

/// Errors: `invalid_data` unless a file's content is so many bytes in all.
void check_held(DataFile const& file, BodyPromise const& promise, std::uint64_t held);

/// The bytes behind the header, up to which `file` was read.
///
/// Errors: `invalid_data` for a file that holds fewer or more. Memory is taken only for what the file can hold.
/// Cost: a plain file's bytes are copied once, by the operating system.
[[nodiscard]] auto read_body(DataFile& file, BodyPromise const& promise) -> std::shared_ptr<std::byte[]>;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/detail/read_body-inl.hpp>
#endif
