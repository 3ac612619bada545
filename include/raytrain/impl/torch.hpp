// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <raytrain/backend/torch-inl.hpp>
#include <raytrain/backend/torch/blas_advice-inl.hpp>
#include <raytrain/backend/torch/default_generator_lock-inl.hpp>
#include <raytrain/backend/torch/freed_memory-inl.hpp>
#include <raytrain/backend/torch/generator_states-inl.hpp>
#include <raytrain/backend/torch/gradient_arena-inl.hpp>
#include <raytrain/backend/torch/gradient_averager-inl.hpp>
#include <raytrain/backend/torch/learning_rates-inl.hpp>
#include <raytrain/backend/torch/thread_advice-inl.hpp>
#include <raytrain/backend/torch/torch_batch-inl.hpp>
#include <raytrain/backend/torch/torch_checkpoint-inl.hpp>
#include <raytrain/backend/torch/torch_context-inl.hpp>
#include <raytrain/backend/torch/torch_shard-inl.hpp>
