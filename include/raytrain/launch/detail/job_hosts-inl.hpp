// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <raytrain/core/error.hpp>
#include <raytrain/core/file_descriptor.hpp>
#include <raytrain/core/inline.hpp>
#include <raytrain/launch/detail/job_hosts.hpp>

namespace raytrain::detail {

RAYTRAIN_INLINE auto without(std::vector<std::string> names, std::vector<std::string> const& others)
    -> std::vector<std::string> {
  std::erase_if(names, [&](auto const& name) { return std::ranges::find(others, name) != others.end(); });
  return names;
}

RAYTRAIN_INLINE auto listed(std::vector<std::string> const& names) -> std::string {
  std::string text;
  for (auto const& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// Of Open MPI 4 and 5, and of MPICH.
inline constexpr std::array<std::string_view, 5> host_file_options{"--hostfile", "-hostfile", "--machinefile",
                                                                   "-machinefile", "-f"};
inline constexpr std::array<std::string_view, 5> host_list_options{"--host", "-host", "-H", "--hosts", "-hosts"};

/// The number at the beginning, if there is one.
[[nodiscard]] RAYTRAIN_INLINE auto count_in(std::string_view text) -> std::optional<std::uint32_t> {
  std::uint32_t count = 0;
  auto const begin = std::min(text.find_first_not_of("= "), text.size());
  auto const [end, error] = std::from_chars(text.data() + begin, text.data() + text.size(), count);
  return error == std::errc{} ? std::optional{count} : std::nullopt;
}

/// Where " key = value" lies in a line.
struct KeyInLine {
  std::size_t begin;  ///< Of the space before it.
  std::size_t value;
  std::size_t end;
};

[[nodiscard]] RAYTRAIN_INLINE auto find_key(std::string_view line, std::string_view key) -> std::optional<KeyInLine> {
  constexpr std::string_view spaces{" \t"};
  for (auto at = line.find(key); at != std::string_view::npos; at = line.find(key, at + 1)) {
    auto const is_whole = at > 0 && spaces.find(line[at - 1]) != std::string_view::npos;
    auto const sign = line.find_first_not_of(spaces, at + key.size());
    if (!is_whole || sign == std::string_view::npos || line[sign] != '=') continue;
    auto const value = std::min(line.find_first_not_of(spaces, sign + 1), line.size());
    return KeyInLine{at - 1, value, std::min(line.find_first_of(spaces, value), line.size())};
  }
  return std::nullopt;
}

RAYTRAIN_INLINE JobHosts::JobHosts(std::vector<std::string> command, std::map<std::string, double> needs)
    : command_{std::move(command)}, needs_{std::move(needs)} {
  for (std::size_t i = 0; i + 1 < command_.size(); ++i) {
    auto const names_file = std::ranges::find(host_file_options, command_[i]) != host_file_options.end();
    auto const names_list = std::ranges::find(host_list_options, command_[i]) != host_list_options.end();
    if (!names_file && !names_list) continue;
    if (std::exchange(named_at_, i + 1) != 0) return;
    has_file_ = names_file;
  }
  auto const says_more = [](std::string const& word) {
    return word == "-rf" || word.find("rankfile") != std::string::npos || word.starts_with("--default-hostfile");
  };
  if (named_at_ == 0 || std::ranges::any_of(command_, says_more)) return;
  if (has_file_) {
    read_file();
  } else if (needs_.empty()) {
    read_list();
  }
}

RAYTRAIN_INLINE auto JobHosts::room_in(std::string_view line) const -> std::optional<std::uint32_t> {
  constexpr auto most = std::numeric_limits<std::uint32_t>::max();
  std::optional<std::uint32_t> room;
  for (auto const& [name, amount] : needs_) {
    double there = 0;
    if (auto const found = find_key(line, name))
      std::from_chars(line.data() + found->value, line.data() + found->end, there);
    if (!std::isfinite(there)) there = 0;
    constexpr double rounding = 1e-9;  // 0.3 is enough for three times 0.1
    auto const enough_for = std::clamp(there / amount + rounding, 0.0, double{most});
    room = std::min(room.value_or(most), static_cast<std::uint32_t>(enough_for));
  }
  return room;
}

RAYTRAIN_INLINE void JobHosts::read_file() {
  std::ifstream file{command_[named_at_]};
  for (std::string line; std::getline(file, line);) {
    if (line.ends_with('\r')) {
      line.pop_back();  // which Open MPI does not read
      is_to_be_rewritten_ = true;
    }
    auto const text = std::string_view{line}.substr(0, line.find('#'));
    auto const begin = text.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos) continue;
    auto const name = text.substr(begin, text.find_first_of(" \t\r", begin) - begin);
    if (name.starts_with('^') || name.starts_with('+')) {
      entries_.clear();
      hosts_.clear();
      return;
    }
    auto const colon = name.find(':');  // as MPICH has it
    auto slots = colon == std::string_view::npos ? std::nullopt : count_in(name.substr(colon + 1));
    if (auto const found = find_key(text, "slots")) slots = count_in(text.substr(found->value));
    auto const room = room_in(text);
    if (!room) {
      add(name.substr(0, colon), slots, line);
      continue;
    }
    is_to_be_rewritten_ = true;
    if (slots.value_or(1) == 0 || *room == 0) continue;
    slots = std::min(slots.value_or(*room), *room);
    auto const is_of_mpich = colon != std::string_view::npos || command_[named_at_ - 1] == "-f";
    auto const host = std::string{name.substr(0, colon)};
    std::string rest{text.substr(begin + name.size())};
    auto const erase = [&](std::string_view key) {
      if (auto const found = find_key(rest, key)) rest.erase(found->begin, found->end - found->begin);
    };
    erase("slots");
    for (auto const& [resource, amount] : needs_) erase(resource);
    add(host, slots, host + (is_of_mpich ? ":" : " slots=") + std::to_string(*slots) + rest);
  }
}

RAYTRAIN_INLINE void JobHosts::read_list() {
  std::string_view const list = command_[named_at_];
  for (std::size_t begin = 0; begin < list.size();) {
    auto const end = std::min(list.find(',', begin), list.size());
    auto const text = list.substr(begin, end - begin);
    auto const colon = text.find(':');
    add(text.substr(0, colon), colon == std::string_view::npos ? std::optional{1U} : count_in(text.substr(colon + 1)),
        text);
    begin = end + 1;
  }
}

RAYTRAIN_INLINE void JobHosts::add(std::string_view name, std::optional<std::uint32_t> slots, std::string_view text) {
  entries_.push_back({std::string{name}, std::string{text}});
  auto const host = std::ranges::find(hosts_, name, &Host::name);
  if (host == hosts_.end()) {
    hosts_.push_back({std::string{name}, slots});
  } else {
    // One that is named again has a slot for each time.
    host->slots = host->slots.value_or(1) + slots.value_or(1);
  }
}

RAYTRAIN_INLINE auto JobHosts::names() const -> std::vector<std::string> {
  std::vector<std::string> names;
  for (auto const& host : hosts_) names.push_back(host.name);
  return names;
}

RAYTRAIN_INLINE auto JobHosts::slots_of(std::vector<std::string> const& names) const -> std::optional<std::uint64_t> {
  std::uint64_t sum = 0;
  for (auto const& [name, slots] : hosts_) {
    if (std::ranges::find(names, name) == names.end()) continue;
    if (!slots) return std::nullopt;
    sum += *slots;
  }
  return sum;
}

RAYTRAIN_INLINE auto JobHosts::command_on(std::vector<std::string> const& names) const -> JobCommand {
  std::string text;
  for (auto const& entry : entries_) {
    if (std::ranges::find(names, entry.name) == names.end()) continue;
    if (has_file_) {
      text += entry.text + '\n';
    } else {
      text += (text.empty() ? "" : ",") + entry.text;
    }
  }
  JobCommand command{.words = command_};
  auto& word = command.words[named_at_];
  if (!has_file_) {
    word = std::move(text);
    return command;
  }
  // It needs no place that this process may write to, and is gone with it.
  command.host_file = FileDescriptor{::memfd_create("raytrain hosts", MFD_CLOEXEC)};
  auto const file = command.host_file.get();
  errno = file < 0 ? errno : ENOSPC;  // of a write that is cut short
  auto const is_whole = file >= 0 && ::write(file, text.data(), text.size()) == static_cast<::ssize_t>(text.size());
  if (!is_whole) {
    throw Error{Errc::io, "making a host file for the next job",
                std::error_code{errno, std::generic_category()}.message()};
  }
  word = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(file);
  return command;
}

}  // namespace raytrain::detail
