// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <raytrain/core/file_descriptor.hpp>

namespace raytrain::detail {

[[nodiscard]] auto without(std::vector<std::string> names, std::vector<std::string> const& others)
    -> std::vector<std::string>;

/// "alpha, beta".
[[nodiscard]] auto listed(std::vector<std::string> const& names) -> std::string;

/// A command, and the file of this process that it reads.
struct JobCommand {
  std::vector<std::string> words;
  FileDescriptor host_file{};
};

/// The hosts that a command such as `ScalingConfig::job_command` names, in its host file or in a list.
class JobHosts {
 public:
  struct Host {
    std::string name;
    std::optional<std::uint32_t> slots;  ///< Processes that a job may have there, as far as it is said.
    friend auto operator==(Host const&, Host const&) -> bool = default;
  };

  /// Reads the host file. There are no hosts where the command does not say by one option which it may use, where it
  /// says more (a rank file), or where the file is not there or has lines of an unknown form.
  ///
  /// `needs`: as `Resources::custom`; a host has no more slots than it has enough for, and there are none of lists.
  explicit JobHosts(std::vector<std::string> command, std::map<std::string, double> needs = {});

  /// In the order in which they are named, each once.
  [[nodiscard]] auto hosts() const noexcept -> std::vector<Host> const& { return hosts_; }

  [[nodiscard]] auto names() const -> std::vector<std::string>;

  /// The sum of what these have; none where one of them does not say it.
  [[nodiscard]] auto slots_of(std::vector<std::string> const& names) const -> std::optional<std::uint64_t>;

  /// Whether no launcher reads the file as it is.
  [[nodiscard]] auto is_to_be_rewritten() const noexcept -> bool { return is_to_be_rewritten_; }

  /// The command for a job on these hosts alone, with the same slots. Errors: `io`.
  [[nodiscard]] auto command_on(std::vector<std::string> const& names) const -> JobCommand;

 private:
  /// A line, or one of a list.
  struct Entry {
    std::string name;
    std::string text;
  };

  void read_file();
  void read_list();
  void add(std::string_view name, std::optional<std::uint32_t> slots, std::string_view text);

  /// For how many processes a line has what each needs; none where they need nothing.
  [[nodiscard]] auto room_in(std::string_view line) const -> std::optional<std::uint32_t>;

  std::vector<std::string> command_;
  std::map<std::string, double> needs_;
  std::size_t named_at_ = 0;  ///< The word of the command that names the file, or is the list.
  bool has_file_ = false;
  bool is_to_be_rewritten_ = false;
  std::vector<Entry> entries_;
  std::vector<Host> hosts_;
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED
#include <raytrain/launch/detail/job_hosts-inl.hpp>
#endif
