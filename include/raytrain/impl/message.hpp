// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <raytrain/message/codec-inl.hpp>
#include <raytrain/message/detail/json_parser-inl.hpp>
#include <raytrain/message/detail/json_reader-inl.hpp>
#include <raytrain/message/detail/json_text-inl.hpp>
#include <raytrain/message/detail/json_writer-inl.hpp>
#include <raytrain/message/detail/report_visitors-inl.hpp>
#include <raytrain/message/detail/wire_archive-inl.hpp>
#include <raytrain/message/detail/wire_messages-inl.hpp>
#include <raytrain/message/frame-inl.hpp>
#include <raytrain/message/json-inl.hpp>
#include <raytrain/message/json_cursor-inl.hpp>
#include <raytrain/message/message-inl.hpp>
#include <raytrain/message/report_fields-inl.hpp>
#include <raytrain/message/report_line-inl.hpp>
