// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <raytrain/config/checkpoint_config-inl.hpp>
#include <raytrain/config/checkpoint_interval-inl.hpp>
#include <raytrain/config/failure_config-inl.hpp>
#include <raytrain/config/run_config-inl.hpp>
#include <raytrain/config/scaling_config-inl.hpp>
