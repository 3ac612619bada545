// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <raytrain/collective/collective-inl.hpp>
#include <raytrain/collective/collective_group-inl.hpp>
#include <raytrain/collective/detail/agreement-inl.hpp>
#include <raytrain/collective/detail/argument_checks-inl.hpp>
#include <raytrain/collective/detail/barrier-inl.hpp>
#include <raytrain/collective/detail/reduce-inl.hpp>
#include <raytrain/collective/detail/shared_file-inl.hpp>
#include <raytrain/collective/detail/task-inl.hpp>
#include <raytrain/collective/local-inl.hpp>
#include <raytrain/collective/shared_memory-inl.hpp>
#include <raytrain/collective/wait_limits-inl.hpp>
#include <raytrain/collective/waiting-inl.hpp>

namespace raytrain::detail {

// As a whole, so that what a small operation calls is inlined.
template class BarrierCollective<LocalGroup>;
template class BarrierCollective<SharedMemoryGroup>;

// Every `Element`.
template auto Reducers::of<float>() noexcept -> Reducers const&;
template auto Reducers::of<double>() noexcept -> Reducers const&;
template auto Reducers::of<signed char>() noexcept -> Reducers const&;
template auto Reducers::of<short>() noexcept -> Reducers const&;
template auto Reducers::of<int>() noexcept -> Reducers const&;
template auto Reducers::of<long>() noexcept -> Reducers const&;
template auto Reducers::of<long long>() noexcept -> Reducers const&;
template auto Reducers::of<unsigned char>() noexcept -> Reducers const&;
template auto Reducers::of<unsigned short>() noexcept -> Reducers const&;
template auto Reducers::of<unsigned>() noexcept -> Reducers const&;
template auto Reducers::of<unsigned long>() noexcept -> Reducers const&;
template auto Reducers::of<unsigned long long>() noexcept -> Reducers const&;
template auto Reducers::of<Float16>() noexcept -> Reducers const&;
template auto Reducers::of<BFloat16>() noexcept -> Reducers const&;

}  // namespace raytrain::detail
