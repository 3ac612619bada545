// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace raytrain::detail {

/// The images of a folder, by name alone.
struct ImageFolder {
  std::vector<std::string> paths{};    ///< "cat/1.jpg": relative to the folder, in the order of their bytes.
  std::vector<std::string> classes{};  ///< Folders that hold images, sorted; none where the folder itself does.
};

/// Errors: `not_found` where there is no such folder, or no image in it; `io`; `invalid_data` for images both in the
///         folder and in folders of it, and for folders of folders.
[[nodiscard]] auto find_images(std::filesystem::path const& folder) -> ImageFolder;

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/data/detail/image_folder-inl.hpp>
#endif
