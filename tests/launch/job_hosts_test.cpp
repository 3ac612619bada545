// SPDX-License-Identifier: Apache-2.0
#include <raytrain/launch/detail/job_hosts.hpp>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "../support/temporary_folder.hpp"
#include "../support/text_files.hpp"

using namespace raytrain::detail;
using raytrain::testing::TemporaryFolder;
using Words = std::vector<std::string>;

namespace {

/// A host file, and a command that names it.
class HostFile {
 public:
  explicit HostFile(std::string const& text) { std::ofstream{path()} << text; }

  [[nodiscard]] auto path() const -> std::string { return (folder_.path() / "hosts.txt").string(); }
  [[nodiscard]] auto command() const -> Words { return {"mpirun", "--hostfile", path(), "--bind-to", "none"}; }

 private:
  TemporaryFolder folder_;
};

auto slots_in(JobHosts const& hosts) -> std::vector<std::optional<std::uint32_t>> {
  std::vector<std::optional<std::uint32_t>> slots;
  for (auto const& host : hosts.hosts()) slots.push_back(host.slots);
  return slots;
}

}  // namespace

TEST_CASE("the hosts of a host file are those of its lines, with their slots") {
  HostFile const file{
      "# a comment\n\nalpha slots=2 max_slots=4\n  beta   slots = 3 # another\ngamma:4\ndelta\nepsilon "
      "max-slots=8\nzeta\nzeta\n"};
  JobHosts const hosts{file.command()};
  CHECK(hosts.names() == Words{"alpha", "beta", "gamma", "delta", "epsilon", "zeta"});
  CHECK(slots_in(hosts) == std::vector<std::optional<std::uint32_t>>{2, 3, 4, std::nullopt, std::nullopt, 2});
  CHECK(hosts.slots_of({"alpha", "gamma"}) == 6);
  CHECK_FALSE(hosts.slots_of({"alpha", "delta"}));
}

TEST_CASE("a command for some of the hosts reads a file with their lines alone, and is otherwise the same") {
  HostFile const file{"alpha slots=2 max_slots=4\nbeta slots=2\ngamma slots=2\n"};
  auto const command = JobHosts{file.command()}.command_on({"gamma", "alpha"});
  REQUIRE(command.words.size() == 5);
  CHECK(read_text(command.words[2]) == "alpha slots=2 max_slots=4\ngamma slots=2\n");
  auto words = command.words;
  words[2] = file.path();
  CHECK(words == file.command());
}

TEST_CASE("a host has no more slots than it has what each process needs, and none where its line does not say so") {
  HostFile const file{
      "alpha slots=4 license=2 # two\nbeta license = 3\tgpu=0.3 slots=8\ngamma slots=2\ndelta slots=1 license=5 gpu=1\n"
      "epsilon:2 license=4 gpu=9\nzeta slots=2 license=many gpu=1\n"};
  JobHosts const hosts{file.command(), {{"license", 1}}};
  CHECK(hosts.names() == Words{"alpha", "beta", "delta", "epsilon"});
  CHECK(slots_in(hosts) == std::vector<std::optional<std::uint32_t>>{2, 3, 1, 2});
  CHECK(hosts.is_to_be_rewritten());
  auto const command = hosts.command_on({"alpha", "epsilon"});
  CHECK(read_text(command.words[2]) == "alpha slots=2 \nepsilon:2 gpu=9\n");

  JobHosts const of_both{file.command(), {{"license", 2}, {"gpu", 0.1}}};
  CHECK(of_both.names() == Words{"beta", "delta", "epsilon"});
  CHECK(slots_in(of_both) == std::vector<std::optional<std::uint32_t>>{1, 1, 2});
  CHECK(slots_in(JobHosts{file.command(), {{"gpu", 0.1}}}) == std::vector<std::optional<std::uint32_t>>{3, 1, 2, 2});
  CHECK(JobHosts{{"mpirun", "-H", "alpha:2"}, {{"license", 1}}}.names().empty());
}

TEST_CASE("a line keeps what launchers read in it beside slots, and an amount that is no number is none") {
  HostFile const file{"alpha user=me slots=4 license=2 port=22\nbeta slots=4 license=nan\ngamma slots=4 license=inf\n"};
  JobHosts const hosts{file.command(), {{"license", 1}}};
  CHECK(hosts.names() == Words{"alpha"});
  auto const command = hosts.command_on({"alpha"});
  CHECK(read_text(command.words[2]) == "alpha slots=2 user=me port=22\n");
}

TEST_CASE("the hosts of a list have a slot for each time that they are named, or what is said") {
  JobHosts const hosts{{"mpirun", "-H", "alpha:2,beta,gamma:4,beta"}};
  CHECK(hosts.names() == Words{"alpha", "beta", "gamma"});
  CHECK(slots_in(hosts) == std::vector<std::optional<std::uint32_t>>{2, 2, 4});
  CHECK(hosts.command_on({"alpha", "beta"}).words == Words{"mpirun", "-H", "alpha:2,beta,beta"});
}

TEST_CASE("a command that names its hosts in a way that is not known has none") {
  HostFile const file{"alpha slots=2\nbeta slots=2\n"};
  HostFile const relative{"alpha slots=2\n+n1\n"};
  HostFile const excluding{"alpha slots=2\n^beta\n"};
  for (auto const& command :
       {Words{"mpirun"}, Words{"mpirun", "--hostfile"}, Words{"mpirun", "--hostfile", "/no/such/file"},
        Words{"srun", "--mpi=pmix"}, relative.command(), excluding.command(),
        Words{"mpirun", "--hostfile", file.path(), "--host", "alpha"},
        Words{"mpirun", "--hostfile", file.path(), "-rf", "ranks.txt"}, Words{"mpirun", "--host", ""}}) {
    CAPTURE(command.back());
    CHECK(JobHosts{command}.hosts().empty());
  }
}
