// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <raytrain/core/bytes-inl.hpp>
#include <raytrain/core/clock-inl.hpp>
#include <raytrain/core/current_error-inl.hpp>
#include <raytrain/core/file_descriptor-inl.hpp>
#include <raytrain/core/mapped_file-inl.hpp>
#include <raytrain/core/metrics-inl.hpp>
#include <raytrain/core/pages-inl.hpp>
#include <raytrain/core/parallel_copy-inl.hpp>
#include <raytrain/core/process-inl.hpp>
#include <raytrain/core/signs_of_life-inl.hpp>
#include <raytrain/core/thread_state-inl.hpp>
#include <raytrain/core/usable_cores-inl.hpp>
#include <raytrain/core/utf8-inl.hpp>
#include <raytrain/core/xxh3-inl.hpp>
