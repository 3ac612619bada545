// SPDX-License-Identifier: Apache-2.0
// Looks at how many elements MPI is given at a time, through MPI's profiling interface.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include <raytrain/collective/mpi.hpp>
#include <raytrain/testing/collective_conformance.hpp>

#include "mpi_world.hpp"

using namespace raytrain;
using namespace raytrain::testing;

namespace {

struct Given {
  int largest_count = 0;
  std::size_t bytes_to_combine = 0;
  std::string messages;  // "s" for one that is sent, "r" for one that is received
};

/// Several threads of a rank call MPI at once in other tests of this program.
class Recorder {
 public:
  void count(int elements) {
    std::lock_guard lock{mutex_};
    given_.largest_count = std::max(given_.largest_count, elements);
  }

  void bytes_to_combine(std::size_t bytes) {
    std::lock_guard lock{mutex_};
    given_.bytes_to_combine += bytes;
  }

  void message(char direction) {
    std::lock_guard lock{mutex_};
    given_.messages += direction;
  }

  /// What MPI was given since the last call of it.
  auto take() -> Given {
    std::lock_guard lock{mutex_};
    return std::exchange(given_, Given{});
  }

 private:
  std::mutex mutex_;
  Given given_;
};

Recorder recorder;

void look_at(int count) { recorder.count(count); }

/// All of them together may be addressed by an `int`.
void look_at(int const* counts, int const* begins, MPI_Comm communicator) {
  int size = 0;
  MPI_Comm_size(communicator, &size);
  for (int i = 0; i < size; ++i) look_at(begins[i] + counts[i]);
}

/// Arrays in pieces, left to MPI as far as it can combine them.
struct InPiecesOnManyHosts : OnOneHost {
  static auto pretence() -> raytrain::detail::MpiPretence { return {.largest_count = 1000, .ranks_per_host = 1}; }
};

struct OnHostsOfTwoAsTheyAre : InSharedMemory {
  static auto pretence() -> raytrain::detail::MpiPretence { return {.ranks_per_host = 2}; }
};

}  // namespace

extern "C" {

int MPI_Ibcast(void* values, int count, MPI_Datatype type, int root, MPI_Comm communicator, MPI_Request* request) {
  look_at(count);
  return PMPI_Ibcast(values, count, type, root, communicator, request);
}

int MPI_Iallreduce(void const* from, void* to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm communicator,
                   MPI_Request* request) {
  look_at(count);
  int size = 0;
  PMPI_Type_size(type, &size);
  recorder.bytes_to_combine(static_cast<std::size_t>(count) * static_cast<std::size_t>(size));
  return PMPI_Iallreduce(from, to, count, type, op, communicator, request);
}

int MPI_Ireduce(void const* from, void* to, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm communicator,
                MPI_Request* request) {
  look_at(count);
  return PMPI_Ireduce(from, to, count, type, op, root, communicator, request);
}

int MPI_Iallgather(void const* from, int sent, MPI_Datatype sent_type, void* to, int received,
                   MPI_Datatype received_type, MPI_Comm communicator, MPI_Request* request) {
  look_at(sent);
  look_at(received);
  return PMPI_Iallgather(from, sent, sent_type, to, received, received_type, communicator, request);
}

int MPI_Iallgatherv(void const* from, int sent, MPI_Datatype sent_type, void* to, int const* counts, int const* begins,
                    MPI_Datatype received_type, MPI_Comm communicator, MPI_Request* request) {
  look_at(counts, begins, communicator);
  return PMPI_Iallgatherv(from, sent, sent_type, to, counts, begins, received_type, communicator, request);
}

int MPI_Igather(void const* from, int sent, MPI_Datatype sent_type, void* to, int received, MPI_Datatype received_type,
                int root, MPI_Comm communicator, MPI_Request* request) {
  look_at(sent);
  look_at(received);
  return PMPI_Igather(from, sent, sent_type, to, received, received_type, root, communicator, request);
}

int MPI_Iscatter(void const* from, int sent, MPI_Datatype sent_type, void* to, int received, MPI_Datatype received_type,
                 int root, MPI_Comm communicator, MPI_Request* request) {
  look_at(sent);
  look_at(received);
  return PMPI_Iscatter(from, sent, sent_type, to, received, received_type, root, communicator, request);
}

int MPI_Ialltoall(void const* from, int sent, MPI_Datatype sent_type, void* to, int received,
                  MPI_Datatype received_type, MPI_Comm communicator, MPI_Request* request) {
  look_at(sent);
  look_at(received);
  return PMPI_Ialltoall(from, sent, sent_type, to, received, received_type, communicator, request);
}

int MPI_Isend(void const* values, int count, MPI_Datatype type, int to, int tag, MPI_Comm communicator,
              MPI_Request* request) {
  look_at(count);
  recorder.message('s');
  return PMPI_Isend(values, count, type, to, tag, communicator, request);
}

int MPI_Irecv(void* values, int count, MPI_Datatype type, int from, int tag, MPI_Comm communicator,
              MPI_Request* request) {
  look_at(count);
  recorder.message('r');
  return PMPI_Irecv(values, count, type, from, tag, communicator, request);
}

}  // extern "C"

TEST_CASE_TEMPLATE("MPI is never given more elements at a time than it is allowed", Setup, InPieces,
                   InPiecesOnManyHosts) {
  if (!MpiWorld<Setup>::has({2})) return;
  using Operation = std::size_t (*)(Collective&);
  Operation const operations[] = {
      [](Collective& collective) {
        return wrong_in_all_reduce<std::int32_t>(collective, {.seed = 1, .size = 20'011, .op = ReduceOp::sum});
      },
      [](Collective& collective) {
        return wrong_in_all_reduce<double>(collective, {.seed = 2, .size = 20'011, .op = ReduceOp::max});
      },
      [](Collective& collective) {
        return wrong_in_reduce<std::int64_t>(collective, {.seed = 3, .size = 20'011, .op = ReduceOp::sum, .root = {1}});
      },
      [](Collective& collective) {
        return wrong_in_reduce<double>(collective, {.seed = 4, .size = 20'011, .op = ReduceOp::min, .root = {1}});
      },
      [](Collective& collective) {
        return wrong_in_reduce_scatter<float>(collective, {.seed = 5, .size = 5'011, .op = ReduceOp::sum});
      },
      [](Collective& collective) {
        return wrong_in_broadcast<float>(collective, {.seed = 6, .size = 20'011, .root = {1}});
      },
      [](Collective& collective) {
        return wrong_in_all_gather<float>(collective, {.seed = 7, .size = 5'011, .in_place = true});
      },
      [](Collective& collective) { return wrong_in_all_gatherv<float>(collective, {.seed = 8, .size = 5'011}); },
      [](Collective& collective) {
        return wrong_in_gather<float>(collective, {.seed = 9, .size = 5'011, .root = {1}});
      },
      [](Collective& collective) {
        return wrong_in_scatter<float>(collective, {.seed = 10, .size = 5'011, .root = {1}});
      },
  };
  for (auto const& operation : operations) {
    CAPTURE(&operation - operations);
    recorder.take();
    check_none_wrong<MpiWorld<Setup>>(operation);
    auto const largest_count = recorder.take().largest_count;
    CHECK(largest_count > 0);
    CHECK(largest_count <= 1000);
  }
}

TEST_CASE_TEMPLATE("between hosts, a large array goes in slices and a small one by MPI's own reduction", Setup,
                   OnManyHosts, OnHostsOfTwoAsTheyAre) {
  auto const all = FirstRanks::job();
  if (all.size != WorldSize{4}) return;
  constexpr std::size_t agreements = 1'000;  // bytes in which ranks compare their calls
  MpiWorld<Setup>::run(all.size, [&](Collective& collective) {
    auto const reduce = [&](std::size_t size) {
      recorder.take();
      CHECK(wrong_in_all_reduce<std::int64_t>(collective, {.seed = 1, .size = size, .op = ReduceOp::sum}) == 0);
      return recorder.take();
    };
    auto const large = reduce(100'000);
    CHECK(large.bytes_to_combine < agreements);
    bool const alone = Setup::pretence().ranks_per_host == 1;
    // Otherwise Open MPI's answer to what comes late waits behind an array, and a network carries one way at a time.
    if (alone) CHECK_MESSAGE(large.messages == "sssrrrsssrrr", "not all is sent before anything is received");
    if (!alone) CHECK(large.messages == (all.rank.value % 2 == 0 ? "srsr" : ""));
    CHECK(wrong_in_all_gather<float>(collective, {.seed = 2, .size = 1'000, .in_place = true}) == 0);
    CHECK(wrong_in_all_gatherv<float>(collective, {.seed = 3, .size = 1'000}) == 0);
    auto const gathered = recorder.take().messages;
    if (alone) CHECK(gathered.starts_with("sssrrr"));
    if (!alone) CHECK(gathered == (all.rank.value % 2 == 0 ? "srsr" : ""));  // once a host
    auto const small = reduce(2'000);
    CHECK(small.messages.empty());
    if (all.rank == Rank{0}) CHECK(small.bytes_to_combine >= 2'000 * sizeof(std::int64_t));
  });
}

TEST_CASE("on two hosts, parts are in rank order also where every second rank is on the other host" * doctest::skip()) {
  auto const all = FirstRanks::job();
  REQUIRE(all.size == WorldSize{4});
  MPI_Comm in_turn = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, 0, static_cast<int>(all.rank.value % 2 * 2 + all.rank.value / 2), &in_turn);
  {
    MpiCollective collective{std::make_shared<MpiGroup>(in_turn, patient_options(true))};
    CHECK(wrong_in_all_gather<float>(collective, {.seed = 1, .size = 1'000, .in_place = true}) == 0);
    CHECK(wrong_in_all_gatherv<float>(collective, {.seed = 2, .size = 20'000}) == 0);
  }
  MPI_Comm_free(&in_turn);
}
