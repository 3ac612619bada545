// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <chrono>

#include <raytrain/core/inline.hpp>
#include <raytrain/core/signs_of_life.hpp>

namespace raytrain {

RAYTRAIN_INLINE SignsOfLife::Owner::Owner(SignsOfLife& signs) noexcept {
  signs.thread_ = ::gettid();
  here_ = &signs;
}

RAYTRAIN_INLINE SignsOfLife::During::During(Activity activity) noexcept : signs_{here_} {
  if (signs_ == nullptr) return;
  before_ = signs_->activity_.exchange(activity);
  if (activity == Activity::waits) began_ = Clock::now();
}

RAYTRAIN_INLINE SignsOfLife::During::~During() {
  if (signs_ == nullptr) return;
  auto const ended = signs_->activity_.exchange(before_);
  if (ended == Activity::waits) signs_->waited_ns_ += std::chrono::nanoseconds{Clock::now() - began_}.count();
  signs_->beat();
}

}  // namespace raytrain
