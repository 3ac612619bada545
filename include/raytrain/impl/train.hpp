// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <raytrain/train/append_file-inl.hpp>
#include <raytrain/train/batch_sizes-inl.hpp>
#include <raytrain/train/checkpoint_stager-inl.hpp>
#include <raytrain/train/controller-inl.hpp>
#include <raytrain/train/data_identity-inl.hpp>
#include <raytrain/train/fit-inl.hpp>
#include <raytrain/train/program-inl.hpp>
#include <raytrain/train/rank_follower-inl.hpp>
#include <raytrain/train/rank_result-inl.hpp>
#include <raytrain/train/result-inl.hpp>
#include <raytrain/train/run_driver-inl.hpp>
#include <raytrain/train/run_history-inl.hpp>
#include <raytrain/train/shared_settings-inl.hpp>
#include <raytrain/train/stop_signals-inl.hpp>
#include <raytrain/train/train_context-inl.hpp>
#include <raytrain/train/training_failed-inl.hpp>
#include <raytrain/train/worker_runner-inl.hpp>
