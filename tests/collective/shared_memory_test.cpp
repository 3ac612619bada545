// SPDX-License-Identifier: Apache-2.0
// Runs as several processes, each of which is a rank.
#include <raytrain/collective/shared_memory.hpp>

#include <doctest/doctest.h>

#include "conformance.hpp"
#include "refusals.hpp"
#include "shared_world.hpp"

TEST_CASE_TEMPLATE_INVOKE(collective_conformance, SharedWorld, AllocatingWorld<false>, AllocatingWorld<true>);
TEST_CASE_TEMPLATE_INVOKE(collective_mismatches, SharedWorld);
TEST_CASE_TEMPLATE_INVOKE(collective_invalid_calls, SharedWorld);
