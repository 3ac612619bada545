// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include <raytrain/data/csv.hpp>

#include "../support/temporary_folder.hpp"
#include "../support/text_files.hpp"

namespace raytrain::testing {

/// What `read_csv` makes of a file with this text.
inline auto csv_of(std::string_view text, CsvOptions const& options = {}) -> Dataset {
  TemporaryFolder const folder;
  return read_csv(write_text(folder.path() / "table.csv", text), options);
}

}  // namespace raytrain::testing
