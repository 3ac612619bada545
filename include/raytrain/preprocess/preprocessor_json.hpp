// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <raytrain/checkpoint/checkpoint.hpp>
#include <raytrain/preprocess/any_preprocessor.hpp>

namespace raytrain {

/// JSON that a person can read: its type, settings, and what it has learnt. Numbers read back bit by bit.
///
/// Errors: `invalid_call` for none; `invalid_data` for text in it that is not UTF-8.
[[nodiscard]] auto to_json(AnyPreprocessor const& preprocessor) -> std::string;

/// What `to_json` has written; `what` says in errors what was read.
///
/// Errors: `invalid_data`, naming the field: for a type that is not registered, or that of a newer version;
///         `invalid_call` where a type of the program's own has the name of one of raytrain's.
[[nodiscard]] auto preprocessor_from_json(std::string_view text, std::string_view what = "a preprocessor")
    -> AnyPreprocessor;

/// Writes the JSON to a file, which is replaced at once. Errors: as `to_json`; `io`.
void save_preprocessor(AnyPreprocessor const& preprocessor, std::filesystem::path const& path);

/// Errors: `not_found`, `io`; as `preprocessor_from_json`.
[[nodiscard]] auto load_preprocessor(std::filesystem::path const& path) -> AnyPreprocessor;

/// The one with which the run trained that wrote the checkpoint, as it learnt then.
///
/// Errors: `not_found` where that run had none; `corrupt_checkpoint`, `io`; as `preprocessor_from_json`.
[[nodiscard]] auto load_preprocessor(Checkpoint const& checkpoint) -> AnyPreprocessor;

/// The same, or none where that run had none. Errors: `corrupt_checkpoint`, `io`; as `preprocessor_from_json`.
[[nodiscard]] auto find_preprocessor(Checkpoint const& checkpoint) -> AnyPreprocessor;

}  // namespace raytrain

#ifndef RAYTRAIN_COMPILED
#include <raytrain/preprocess/preprocessor_json-inl.hpp>
#endif
