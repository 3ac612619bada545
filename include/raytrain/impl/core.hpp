// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <raytrain/core/broken_pipe_guard-inl.hpp>
#include <raytrain/core/bytes-inl.hpp>
#include <raytrain/core/clock-inl.hpp>
#include <raytrain/core/detail/cpu_quota-inl.hpp>
#include <raytrain/core/file_descriptor-inl.hpp>
#include <raytrain/core/fork_generation-inl.hpp>
#include <raytrain/core/host_name-inl.hpp>
#include <raytrain/core/kept_from_forks-inl.hpp>
#include <raytrain/core/metrics-inl.hpp>
#include <raytrain/core/standard_streams-inl.hpp>
#include <raytrain/core/usable_cores-inl.hpp>
#include <raytrain/core/xxh3-inl.hpp>
