// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <raytrain/checkpoint/checkpoint-inl.hpp>
#include <raytrain/checkpoint/checkpoint_copies-inl.hpp>
#include <raytrain/checkpoint/checkpoint_draft-inl.hpp>
#include <raytrain/checkpoint/checkpoint_files-inl.hpp>
#include <raytrain/checkpoint/checkpoint_store-inl.hpp>
#include <raytrain/checkpoint/detail/archive-inl.hpp>
#include <raytrain/checkpoint/detail/directory_files-inl.hpp>
#include <raytrain/checkpoint/detail/directory_lock-inl.hpp>
#include <raytrain/checkpoint/detail/durable_files-inl.hpp>
#include <raytrain/checkpoint/detail/file_names-inl.hpp>
#include <raytrain/checkpoint/detail/file_system-inl.hpp>
#include <raytrain/checkpoint/detail/read_file-inl.hpp>
#include <raytrain/checkpoint/detail/sealed_json-inl.hpp>
#include <raytrain/checkpoint/detail/slice_files-inl.hpp>
#include <raytrain/checkpoint/detail/utc_time-inl.hpp>
#include <raytrain/checkpoint/directory_store-inl.hpp>
#include <raytrain/checkpoint/file_digest-inl.hpp>
#include <raytrain/checkpoint/manifest-inl.hpp>
#include <raytrain/checkpoint/rank_folder-inl.hpp>
#include <raytrain/checkpoint/retention-inl.hpp>
#include <raytrain/checkpoint/run_directory-inl.hpp>
#include <raytrain/checkpoint/run_record-inl.hpp>
#include <raytrain/checkpoint/safetensors-inl.hpp>
#include <raytrain/checkpoint/snapshot_buffers-inl.hpp>
#include <raytrain/checkpoint/whole_file-inl.hpp>
