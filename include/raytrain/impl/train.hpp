// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <raytrain/train/append_file-inl.hpp>
#include <raytrain/train/checkpoint_schedule-inl.hpp>
#include <raytrain/train/checkpoint_stager-inl.hpp>
#include <raytrain/train/controller-inl.hpp>
#include <raytrain/train/controller_checkpoints-inl.hpp>
#include <raytrain/train/controller_stops-inl.hpp>
#include <raytrain/train/detail/copy_exchange-inl.hpp>
#include <raytrain/train/detail/fit-inl.hpp>
#include <raytrain/train/detail/process_fit-inl.hpp>
#include <raytrain/train/detail/rank_follower-inl.hpp>
#include <raytrain/train/detail/rank_result-inl.hpp>
#include <raytrain/train/detail/resize_requests-inl.hpp>
#include <raytrain/train/detail/resume_point-inl.hpp>
#include <raytrain/train/detail/run_callbacks-inl.hpp>
#include <raytrain/train/detail/run_driver-inl.hpp>
#include <raytrain/train/detail/run_driver_checkpoints-inl.hpp>
#include <raytrain/train/detail/run_identity-inl.hpp>
#include <raytrain/train/detail/stop_signals-inl.hpp>
#include <raytrain/train/detail/worker_runner-inl.hpp>
#include <raytrain/train/rate_rules-inl.hpp>
#include <raytrain/train/result-inl.hpp>
#include <raytrain/train/run_history-inl.hpp>
#include <raytrain/train/straggler_watch-inl.hpp>
#include <raytrain/train/taken_data-inl.hpp>
#include <raytrain/train/train_context-inl.hpp>
