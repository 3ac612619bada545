// SPDX-License-Identifier: Apache-2.0
// What models of `Collective` on GPUs have to do like all others, with the CUDA and NCCL of fake_gpu.hpp.
#include <doctest/doctest.h>

#include <raytrain/testing/collective_conformance.hpp>
#include <raytrain/testing/collective_refusals.hpp>

#include "gpu_world.hpp"

using InOrder = NcclWorld<raytrain::Reduction::rank_order>;
using Automatic = NcclWorld<raytrain::Reduction::automatic>;

// The fake combines in rank order, so what is left to NCCL can be held to the same bits.
TEST_CASE_TEMPLATE_INVOKE(collective_conformance, DeviceWorld, InOrder, Automatic);
TEST_CASE_TEMPLATE_INVOKE(collective_mismatches, DeviceWorld, Automatic);
TEST_CASE_TEMPLATE_INVOKE(collective_invalid_calls, DeviceWorld, Automatic);
