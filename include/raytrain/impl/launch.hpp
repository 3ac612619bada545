// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <raytrain/launch/child_process-inl.hpp>
#include <raytrain/launch/control_client-inl.hpp>
#include <raytrain/launch/control_server-inl.hpp>
#include <raytrain/launch/detail/control_frames-inl.hpp>
#include <raytrain/launch/detail/control_outbox-inl.hpp>
#include <raytrain/launch/detail/control_session-inl.hpp>
#include <raytrain/launch/detail/handshake-inl.hpp>
#include <raytrain/launch/detail/rejected_log-inl.hpp>
#include <raytrain/launch/detail/worker_cores-inl.hpp>
#include <raytrain/launch/host-inl.hpp>
#include <raytrain/launch/job-inl.hpp>
#include <raytrain/launch/job_environment-inl.hpp>
#include <raytrain/launch/object_exchange-inl.hpp>
#include <raytrain/launch/process_end-inl.hpp>
#include <raytrain/launch/process_job-inl.hpp>
#include <raytrain/launch/process_launcher-inl.hpp>
#include <raytrain/launch/rank_job-inl.hpp>
#include <raytrain/launch/rank_leader-inl.hpp>
#include <raytrain/launch/rank_seat-inl.hpp>
#include <raytrain/launch/remote_workers-inl.hpp>
#include <raytrain/launch/run_token-inl.hpp>
#include <raytrain/launch/thread_launcher-inl.hpp>
#include <raytrain/launch/worker_link-inl.hpp>
#include <raytrain/launch/worker_process-inl.hpp>
