// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/data/detail/data_file.hpp>
#include <raytrain/data/detail/image_folder.hpp>

namespace raytrain::detail {

/// What one folder has, each sorted.
struct FolderNames {
  std::vector<std::string> images{};
  std::vector<std::string> folders{};
  std::vector<std::string> others{};
};

[[nodiscard]] RAYTRAIN_INLINE auto is_image_name(std::string const& name) -> bool {
  constexpr std::array<std::string_view, 7> endings{".jpg", ".jpeg", ".png", ".bmp", ".ppm", ".pgm", ".gif"};
  auto ending = std::filesystem::path{name}.extension().string();
  for (auto& letter : ending) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return std::ranges::find(endings, ending) != endings.end();
}

[[nodiscard]] RAYTRAIN_INLINE auto names_of_folder(std::filesystem::path const& folder, std::string const& attempted)
    -> FolderNames {
  FolderNames names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry{folder, error}, end; !error && entry != end; entry.increment(error)) {
    auto name = entry->path().filename().string();
    if (name.starts_with('.')) continue;
    std::error_code ignored;
    if (entry->is_directory(ignored)) {
      names.folders.push_back(std::move(name));
    } else if (!is_image_name(name)) {
      names.others.push_back(std::move(name));
    } else if (entry->exists(ignored) && !entry->is_regular_file(ignored)) {  // a pipe would be waited for
      throw Error{Errc::io, attempted, fmt::format("'{}' is not a regular file", entry->path().string()), "remove it"};
    } else {
      names.images.push_back(std::move(name));
    }
  }
  if (error) {
    throw Error{Errc::io, attempted, fmt::format("'{}': {}", folder.string(), error.message()),
                "check its permissions"};
  }
  for (auto* const some : {&names.images, &names.folders, &names.others}) std::ranges::sort(*some);
  return names;
}

/// "it has notes.txt, cat and 3 others".
[[nodiscard]] RAYTRAIN_INLINE auto found_text(FolderNames const& names) -> std::string {
  auto found = names.others;
  std::ranges::copy(names.folders, std::back_inserter(found));
  if (found.empty()) return "it is empty";
  constexpr std::size_t shown = 10;
  auto const more = found.size() > shown ? fmt::format(" and {} others", found.size() - shown) : "";
  found.resize(std::min(found.size(), shown));
  return fmt::format("it has {}{}", fmt::join(found, ", "), more);
}

RAYTRAIN_INLINE auto find_images(std::filesystem::path const& folder) -> ImageFolder {
  auto const attempted = fmt::format("read the images of folder '{}'", folder.string());
  std::error_code ignored;
  auto const status = std::filesystem::status(folder, ignored);
  if (!std::filesystem::exists(status)) {
    throw Error{Errc::not_found, attempted, "there is no such folder; " + neighbours(folder), "check the path"};
  }
  if (!std::filesystem::is_directory(status)) throw Error{Errc::io, attempted, "it is no folder", "name a folder"};
  auto names = names_of_folder(folder, attempted);
  ImageFolder found;
  for (auto const& name : names.folders) {
    auto const inside = names_of_folder(folder / name, attempted);
    if (!inside.images.empty() && !names.images.empty()) {
      throw Error{Errc::invalid_data, attempted,
                  fmt::format("it has images itself, as '{}', and in its folder '{}', as '{}'", names.images.front(),
                              name, inside.images.front()),
                  "put each into the folder of its class, or all into one folder"};
    }
    if (names.images.empty() && !inside.folders.empty()) {
      throw Error{Errc::invalid_data, attempted,
                  fmt::format("its folder '{}', which would be a class, has a folder '{}', of which nothing would be "
                              "read",
                              name, inside.folders.front()),
                  fmt::format("read '{}', whose folders are the classes", (folder / name).string())};
    }
    if (!inside.images.empty()) found.classes.push_back(name);
    for (auto const& image : inside.images) found.paths.push_back(name + '/' + image);
  }
  if (found.paths.empty()) found.paths = std::move(names.images);
  if (found.paths.empty()) {
    throw Error{Errc::not_found, attempted, "there is no image in it or in its folders; " + found_text(names),
                "check the path; images end with .jpg, .jpeg, .png, .bmp, .ppm, .pgm or .gif"};
  }
  std::ranges::sort(found.paths);  // '/' comes behind '-', so that classes need not follow one another as their names
  return found;
}

}  // namespace raytrain::detail
