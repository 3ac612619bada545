// SPDX-License-Identifier: Apache-2.0
#include <raytrain/launch/job_environment.hpp>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <raytrain/launch/detail/rank_variables.hpp>
#include <raytrain/launch/host.hpp>
#include <raytrain/launch/rank_job.hpp>

#include "../support/thrown_error.hpp"

namespace {

using namespace raytrain;

// The environment of a rank, and no other launcher's; as it was before when it goes.
class RankEnvironment {
 public:
  explicit RankEnvironment(std::map<std::string, std::string> const& variables) {
    for (auto const* const name :
         {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "SLURM_PROCID",
          "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "PMIX_RANK", "PMIX_NAMESPACE", "PMI_FD", "RAYTRAIN_INTERFACE",
          "RAYTRAIN_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "RAYTRAIN_SET_RANK"}) {
      if (auto const* const value = std::getenv(name)) before_[name] = value;
      unsetenv(name);
      names_.emplace_back(name);
    }
    for (auto const& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  }
  RankEnvironment(RankEnvironment const&) = delete;
  auto operator=(RankEnvironment const&) -> RankEnvironment& = delete;
  ~RankEnvironment() {
    for (auto const& name : names_) unsetenv(name.c_str());
    for (auto const& [name, value] : before_) setenv(name.c_str(), value.c_str(), 1);
  }

 private:
  std::map<std::string, std::string> before_;
  std::vector<std::string> names_;
};

}  // namespace

TEST_CASE("a rank knows its place in the jobs of Open MPI, MPICH and Slurm") {
  std::map<std::string, std::string> const jobs[] = {
      {{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}},
      {{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}},
      {{"SLURM_PROCID", "2"}, {"SLURM_STEP_NUM_TASKS", "4"}},
  };
  for (auto const& variables : jobs) {
    RankEnvironment const environment{variables};
    auto const job = job_environment();
    REQUIRE(job.has_value());
    CHECK(job->rank == Rank{2});
    CHECK(job->size == WorldSize{4});
    CHECK_FALSE(is_first_of_job());
  }
}

TEST_CASE("ranks that an MPI launcher has started through Slurm's srun are those of the MPI launcher") {
  RankEnvironment const environment{
      {{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}, {"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}}};
  auto const job = job_environment();
  REQUIRE(job.has_value());
  CHECK(job->rank == Rank{5});
  CHECK(job->size == WorldSize{8});
}

TEST_CASE("a program alone is no rank, nor is one in Slurm's batch script") {
  {
    RankEnvironment const environment{{}};
    CHECK_FALSE(job_environment().has_value());
    CHECK(is_first_of_job());
  }
  RankEnvironment const batch{{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}};
  CHECK_FALSE(job_environment().has_value());
}

TEST_CASE("what is no place in a job is none") {
  for (auto const* const size : {"", "0", "-1", "many", "99999999999999"}) {
    RankEnvironment const environment{{{"PMI_RANK", "0"}, {"PMI_SIZE", size}}};
    CAPTURE(size);
    CHECK_FALSE(job_environment().has_value());
  }
  RankEnvironment const outside{{{"PMI_RANK", "4"}, {"PMI_SIZE", "4"}}};
  CHECK_FALSE(job_environment().has_value());
}

TEST_CASE("a program without ranks refuses a job of many, and says what to include") {
  RankEnvironment const environment{{{"PMI_RANK", "0"}, {"PMI_SIZE", "3"}}};
  auto const error = testing::thrown_error([] { (void)detail::rendezvous_of_program(); });
  testing::check_contains(error,
                          "invalid_config: ScalingConfig::launch: this process is one of 3 that an MPI launcher "
                          "(PMI) has started, and the program was built without ranks; write #include "
                          "<raytrain/launch/ranks.hpp> beside main");
}

TEST_CASE("one of several processes of torchrun knows that it is one, with and without local ranks") {
  for (auto const& more : {std::map<std::string, std::string>{}, {{"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}}}) {
    auto variables = more;
    variables.insert({{"RANK", "3"}, {"WORLD_SIZE", "4"}});
    RankEnvironment const environment{variables};
    auto const job = job_environment();
    REQUIRE(job.has_value());
    CHECK(job->launcher == torchrun_name);
    CHECK(job->rank == Rank{3});
    CHECK(job->size == WorldSize{4});
    CHECK_FALSE(is_first_of_job());
    testing::check_contains(testing::thrown_error([] { (void)detail::rendezvous_of_program(); }),
                            "invalid_config: fit(): by RANK and WORLD_SIZE this process is one of 4 that torchrun, or "
                            "a script like it, has started, and raytrain does not know how to join them: each would "
                            "train by itself; start the program by mpirun or srun; or once, with Launch::processes");
  }
}

TEST_CASE("RANK and WORLD_SIZE of one process, of a rank of MPI, or of a worker of raytrain's are no job of torchrun") {
  std::map<std::string, std::string> const others[] = {
      {{"RANK", "0"}, {"WORLD_SIZE", "1"}},
      {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"PMIX_RANK", "0"}},
      {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"RAYTRAIN_SET_RANK", "0/2"}},
      {{"RANK", "2"}},
      {{"RANK", "2"}, {"WORLD_SIZE", "2"}},
  };
  for (auto const& variables : others) {
    RankEnvironment const environment{variables};
    CHECK_FALSE(job_environment().has_value());
  }
  // A torchrun within such a worker.
  RankEnvironment const environment{{{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"RAYTRAIN_SET_RANK", "0/2"}}};
  CHECK(job_environment().has_value());
}

TEST_CASE("a worker's place is set as torchrun sets it, in place of another one") {
  RankEnvironment const environment{{{"RANK", "7"}, {"LOCAL_RANK", "1"}}};
  detail::set_rank_variables({.world_rank = Rank{5},
                              .world_size = WorldSize{8},
                              .local_rank = Rank{1},
                              .local_world_size = WorldSize{4},
                              .node_rank = Rank{1}});
  std::map<std::string, std::string> const expected{
      {"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "4"}, {"RAYTRAIN_SET_RANK", "5/8"}};
  for (auto const& [name, value] : expected) CHECK(std::getenv(name.c_str()) == value);
  CHECK_FALSE(job_environment().has_value());
}

TEST_CASE("a process that MPI takes for a job of its own is told how to start it") {
  std::string const srun = detail::alone_in_mpi({srun_name, Rank{0}, WorldSize{2}}).what();
  testing::check_contains(srun,
                          "joining the job of Slurm's srun: it has started 2 processes, and to MPI this one is a job "
                          "of its own; write srun --mpi=pmix");
  std::string const other = detail::alone_in_mpi({"an MPI launcher (PMI)", Rank{0}, WorldSize{2}}).what();
  testing::check_contains(other, "start it by the mpirun of the MPI that it was built with");
}

TEST_CASE("MPI finds its job by PMIx or PMI, and not by Slurm's own variables") {
  RankEnvironment const slurm{{{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}}};
  CHECK_FALSE(detail::mpi_is_told_of_job());
  for (auto const* const name : {"PMIX_RANK", "PMI_RANK"}) {
    RankEnvironment const told{{{name, "0"}}};
    CHECK(detail::mpi_is_told_of_job());
  }
}

TEST_CASE("an address lies in a network when its first bits are the network's") {
  CHECK(detail::is_in_network("10.1.2.3", "10.1.0.0/16"));
  CHECK(detail::is_in_network("10.1.2.3", "10.1.2.3/32"));
  CHECK(detail::is_in_network("10.1.2.3", "0.0.0.0/0"));
  CHECK_FALSE(detail::is_in_network("10.2.2.3", "10.1.0.0/16"));
  CHECK_FALSE(detail::is_in_network("10.1.2.3", "10.1.2.2/32"));
  for (auto const* const wrong : {"", "10.1.0.0", "10.1.0.0/", "10.1.0.0/33", "10.1.0.0/1x", "eth0/8", "/8"}) {
    CAPTURE(wrong);
    CHECK_FALSE(detail::is_in_network("10.1.2.3", wrong));
  }
}

TEST_CASE("a port is a number up to 65535, and any one unless it is asked for") {
  {
    RankEnvironment const environment{{}};
    CHECK(wanted_port() == 0);
  }
  {
    RankEnvironment const environment{{{"RAYTRAIN_PORT", "65535"}}};
    CHECK(wanted_port() == 65535);
  }
  for (auto const* const wrong : {"", "65536", "-1", "80x", " 80"}) {
    RankEnvironment const environment{{{"RAYTRAIN_PORT", wrong}}};
    testing::check_contains(
        testing::thrown_error([] { (void)wanted_port(); }),
        "invalid_config: RAYTRAIN_PORT: must be a port from 0 to 65535 (got '" + std::string{wrong} + "')");
  }
}

TEST_CASE("a network that a host does not have is refused with those that it has") {
  RankEnvironment const environment{{{"RAYTRAIN_INTERFACE", "no_such_network"}}};
  auto const error = testing::thrown_error([] { (void)reachable_address(); });
  testing::check_contains(error, "invalid_config: RAYTRAIN_INTERFACE: host ");
  testing::check_contains(error, "has no network 'no_such_network'; it has ");
  for (auto const& [name, address] : network_interfaces()) {
    testing::check_contains(error, name + " (" + address + ")");
    CHECK(find_address(name).has_value());
    CHECK(find_address(address) == address);
  }
}
