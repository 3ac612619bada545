// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <raytrain/collective/collective-inl.hpp>
#include <raytrain/collective/collective_group-inl.hpp>
#include <raytrain/collective/detail/agreement-inl.hpp>
#include <raytrain/collective/detail/argument_checks-inl.hpp>
#include <raytrain/collective/detail/barrier-inl.hpp>
#include <raytrain/collective/detail/call-inl.hpp>
#include <raytrain/collective/detail/call_errors-inl.hpp>
#include <raytrain/collective/detail/call_history-inl.hpp>
#include <raytrain/collective/detail/device_memory_query-inl.hpp>
#include <raytrain/collective/detail/futex-inl.hpp>
#include <raytrain/collective/detail/group_checks-inl.hpp>
#include <raytrain/collective/detail/pages-inl.hpp>
#include <raytrain/collective/detail/patience-inl.hpp>
#include <raytrain/collective/detail/reduce-inl.hpp>
#include <raytrain/collective/detail/shared_file-inl.hpp>
#include <raytrain/collective/local_group-inl.hpp>
#include <raytrain/collective/shared_memory_group-inl.hpp>
#include <raytrain/collective/wait_limits-inl.hpp>
