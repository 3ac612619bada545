// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <raytrain/collective/buffer-inl.hpp>
#include <raytrain/collective/collective-inl.hpp>
#include <raytrain/collective/collective_group-inl.hpp>
#include <raytrain/collective/detail/agreement-inl.hpp>
#include <raytrain/collective/detail/argument_checks-inl.hpp>
#include <raytrain/collective/detail/barrier-inl.hpp>
#include <raytrain/collective/detail/reduce-inl.hpp>
#include <raytrain/collective/detail/shared_file-inl.hpp>
#include <raytrain/collective/detail/task-inl.hpp>
#include <raytrain/collective/detail/waiting-inl.hpp>
#include <raytrain/collective/local-inl.hpp>
#include <raytrain/collective/shared_memory-inl.hpp>
#include <raytrain/collective/wait_limits-inl.hpp>

// As a whole, so that what a small operation calls is inlined.
template class raytrain::detail::BarrierCollective<raytrain::LocalGroup>;
template class raytrain::detail::BarrierCollective<raytrain::SharedMemoryGroup>;
