// SPDX-License-Identifier: Apache-2.0
#include <raytrain/core/usable_cores.hpp>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include <raytrain/core/usable_cores.hpp>

#include "../support/temporary_folder.hpp"

namespace {

/// A machine's control groups, as files.
class Groups {
 public:
  explicit Groups(std::string const& mine) { write("mine", mine); }

  void write(std::string const& name, std::string const& text) const {
    auto const path = folder_.path() / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream{path} << text << "\n";
  }
  [[nodiscard]] auto quota() const -> double {
    return raytrain::detail::cpu_quota({.groups = folder_.path() / "mine", .mounts = folder_.path()}).value_or(-1);
  }

 private:
  raytrain::testing::TemporaryFolder folder_;
};

}  // namespace

TEST_CASE("the quota of a control group is that of the least generous group above it, or none") {
  Groups const groups{"0::/slice/job"};
  CHECK(groups.quota() == -1);
  groups.write("slice/job/cpu.max", "max 100000");
  CHECK(groups.quota() == -1);
  groups.write("slice/cpu.max", "150000 100000");
  CHECK(groups.quota() == 1.5);
  groups.write("slice/job/cpu.max", "400000 100000");
  CHECK(groups.quota() == 1.5);
  groups.write("slice/job/cpu.max", "50000 100000");
  CHECK(groups.quota() == 0.5);
}

TEST_CASE("in a container, the mount itself is the process's group, whatever the path says") {
  Groups const groups{"0::/docker/0123"};
  groups.write("cpu.max", "200000 100000");
  CHECK(groups.quota() == 2);
}

TEST_CASE("the first version of control groups has its quota in two files, and -1 for none") {
  Groups const groups{"9:name=systemd:/a\n4:cpuset:/a\n3:cpu,cpuacct:/a\n0::/"};
  groups.write("cpu/a/cpu.cfs_quota_us", "-1");
  groups.write("cpu/a/cpu.cfs_period_us", "100000");
  CHECK(groups.quota() == -1);
  groups.write("cpu/a/cpu.cfs_quota_us", "300000");
  CHECK(groups.quota() == 3);
}

TEST_CASE(
    "of some cores, as many can be used at once as a quota has time for, rounded up, at least one and at most all") {
  using raytrain::detail::cores_within;
  CHECK(cores_within(8, 2) == 2);
  CHECK(cores_within(8, 1.5) == 2);
  CHECK(cores_within(8, 0.01) == 1);
  CHECK(cores_within(8, 8) == 8);
  CHECK(cores_within(2, 8) == 2);
  CHECK(cores_within(8, std::numeric_limits<double>::infinity()) == 8);
}

TEST_CASE("a process may use at least one core's worth, and no more than it has cores") {
  CHECK(raytrain::usable_core_count() >= 1);
  CHECK(raytrain::usable_core_count() <= raytrain::usable_cores().size());
}
