// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include <raytrain/callback/append_file.hpp>
#include <raytrain/callback/json_lines.hpp>
#include <raytrain/checkpoint/run_record.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/train/callback.hpp>

namespace raytrain {

RAYTRAIN_INLINE void JsonLines::on_start(RunInfo const& info) {
  file_ = AppendFile{path_.empty() ? info.path / progress_file_name : path_};
}

}  // namespace raytrain
