// SPDX-License-Identifier: Apache-2.0
// Runs as 1, 2 and 4 ranks.
#include <raytrain/collective/mpi.hpp>
#include <raytrain/testing/collective_conformance.hpp>
#include <raytrain/testing/collective_duplicates.hpp>
#include <raytrain/testing/collective_refusals.hpp>

#include <doctest/doctest.h>

#include "mpi_world.hpp"

TEST_CASE_TEMPLATE_INVOKE(collective_conformance, MpiWorld<InSharedMemory>, MpiWorld<RankOrderOnHostsOfTwo>,
                          MpiWorld<OnOneHost>, MpiWorld<CallsChecked>, MpiWorld<RankOrderOnManyHosts>,
                          MpiWorld<InPieces>);
TEST_CASE_TEMPLATE_INVOKE(collective_mismatches, MpiWorld<InSharedMemory>, MpiWorld<CallsChecked>);
TEST_CASE_TEMPLATE_INVOKE(collective_invalid_calls, MpiWorld<InSharedMemory>, MpiWorld<OnOneHost>,
                          MpiWorld<CallsChecked>);
TEST_CASE_TEMPLATE_INVOKE(collective_duplicates, MpiWorld<InSharedMemory>, MpiWorld<OnHostsOfTwo>,
                          MpiWorld<CallsChecked>);
