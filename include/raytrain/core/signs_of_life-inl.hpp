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
  if (before_ == Activity::own_work && activity != Activity::reports) began_ = Clock::now();
}

RAYTRAIN_INLINE SignsOfLife::During::~During() {
  if (signs_ == nullptr) return;
  signs_->activity_ = before_;
  if (began_ != Clock::time_point{}) signs_->away_ns_ += std::chrono::nanoseconds{Clock::now() - began_}.count();
  signs_->beat();
}

}  // namespace raytrain
