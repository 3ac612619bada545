// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include <raytrain/backend/torch/detail/gradient_arena.hpp>
#include <raytrain/backend/torch/detail/model_exchange.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/collective/wrapped_collective.hpp>
#include <raytrain/exec/background_thread.hpp>

namespace raytrain::detail {

class SideStream;

/// Averages the buckets of a model's gradients while a backward computes the others, by a thread of its own, in a
/// collective of its own. In the first backward it takes the last bucket first, since backwards begin with the last
/// layers. Then it takes the buckets in the order in which rank 0's gradients were there, and those without a gradient
/// last; it keeps the first order if a gradient came twice. All ranks take the buckets in the same order, each one when
/// its rank has the gradients.
///
/// On a device the thread agrees with the other ranks, and puts exchanges on a stream of its own.
///
/// A gradient is complete when the backward comes to that of another parameter. What has no gradient when the backward
/// ends is exchanged then.
///
/// Threads: the worker's.
/// Source:  S. Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", VLDB 2020.
class BackwardExchange {
 public:
  /// `collective`: for this model's buckets alone; it must live as long.
  BackwardExchange(GradientArena& arena, ModelExchange const& exchange, Collective& collective);
  BackwardExchange(BackwardExchange const&) = delete;
  auto operator=(BackwardExchange const&) -> BackwardExchange& = delete;
  /// Behind a backward that has failed it exchanges what is left, for which other ranks may wait.
  ~BackwardExchange();

  /// A backward that averages begins. Each gradient is multiplied by `scale` before it is averaged.
  ///
  /// Errors: `invalid_call` when the one before has failed behind the exchange of a bucket.
  void begin(CallTag const& tag, double scale);

  /// The gradient of this parameter is about to be added to its place in the arena; those before it are there.
  ///
  /// Errors: `invalid_call` for one whose bucket is exchanged already.
  void arrive(std::size_t parameter);

  /// The backward has ended. What has not been launched yet is launched now; `finish` waits for it.
  void end_backward();

  /// Returns when all gradients are averaged. `ordering`: a collective in which ranks agree on the order of buckets. A
  /// group operation of it behind the first backward that exchanges.
  ///
  /// Errors: what the collective throws, or the program's exchange.
  void finish(Collective& ordering);

 private:
  /// Begins to exchange the buckets of which all gradients are there.
  void launch_complete();
  void launch();
  /// The buckets follow rank 0's gradients from now on.
  void follow_gradients(Collective& ordering);
  void post(std::size_t bucket);
  void prepare(std::size_t bucket);
  void exchange(std::size_t bucket);
  void wait();

  GradientArena& arena_;
  ModelExchange const& exchange_;
  TaggedCollective collective_;
  std::vector<GradientArena::Bucket> buckets_;
  std::vector<std::size_t> bucket_of_;  ///< By parameter.
  std::vector<std::uint32_t> order_;    ///< Of buckets, from the one that is exchanged last.
  bool follows_gradients_ = false;
  std::unique_ptr<SideStream> stream_;  ///< On a device.

  // Of the backward under way.
  double scale_ = 1;
  bool is_open_ = false;
  std::size_t left_ = 0;                 ///< Buckets that are not launched: the first ones of `order_`.
  std::vector<std::size_t> missing_;     ///< Gradients, by bucket.
  std::vector<bool> is_launched_;        ///< By bucket.
  std::vector<bool> has_arrived_;        ///< By parameter.
  std::vector<std::uint32_t> complete_;  ///< Buckets, in the order in which they were.
  bool arrives_again_ = false;           ///< A gradient, in any backward.

  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t exchanged_ = 0;  ///< Buckets.
  std::exception_ptr error_;   ///< The first one.
  BackgroundThread thread_;    ///< Last: it uses everything above.
};

}  // namespace raytrain::detail

#ifndef RAYTRAIN_COMPILED_TORCH
#include <raytrain/backend/torch/detail/backward_exchange-inl.hpp>
#endif
