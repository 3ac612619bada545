// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include <raytrain/data/dataset.hpp>

namespace raytrain {

/// The first rows as a table for people: a line of names, one of types, and one for each row, with 6 digits of a
/// number, 3 numbers of a row that has more, and 40 bytes of a text; and how many rows there are, where these are not
/// all.
[[nodiscard]] auto to_string(Dataset const& dataset, std::size_t rows = 20) -> std::string;

/// Prints `to_string(dataset, rows)`.
void show(Dataset const& dataset, std::size_t rows = 20);

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/dataset_text-inl.hpp>
#endif
