// SPDX-License-Identifier: Apache-2.0
// Runs as 1, 2 and 4 ranks.
#include <raytrain/collective/mpi.hpp>

#include <doctest/doctest.h>

#include "conformance.hpp"
#include "duplicates.hpp"
#include "mpi_world.hpp"
#include "refusals.hpp"

TEST_CASE_TEMPLATE_INVOKE(collective_conformance, MpiWorld<InSharedMemory>, MpiWorld<RankOrderOnHostsOfTwo>,
                          MpiWorld<OnOneHost>, MpiWorld<CallsChecked>, MpiWorld<RankOrderOnManyHosts>,
                          MpiWorld<InPieces>);
TEST_CASE_TEMPLATE_INVOKE(collective_mismatches, MpiWorld<InSharedMemory>, MpiWorld<CallsChecked>);
TEST_CASE_TEMPLATE_INVOKE(collective_invalid_calls, MpiWorld<InSharedMemory>, MpiWorld<OnOneHost>,
                          MpiWorld<CallsChecked>);
TEST_CASE_TEMPLATE_INVOKE(collective_duplicates, MpiWorld<InSharedMemory>, MpiWorld<OnHostsOfTwo>,
                          MpiWorld<CallsChecked>);
