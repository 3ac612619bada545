// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <raytrain/exec/background_thread-inl.hpp>
#include <raytrain/exec/detail/event-inl.hpp>
#include <raytrain/exec/detail/signal_handlers-inl.hpp>
#include <raytrain/exec/executor-inl.hpp>
#include <raytrain/exec/scope-inl.hpp>
#include <raytrain/exec/signals-inl.hpp>
#include <raytrain/exec/sockets-inl.hpp>
#include <raytrain/exec/timer-inl.hpp>
