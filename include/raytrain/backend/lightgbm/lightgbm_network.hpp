// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>

#include <raytrain/backend/lightgbm/detail/lightgbm_exchange.hpp>
#include <raytrain/backend/lightgbm/detail/lightgbm_library.hpp>
#include <raytrain/backend/lightgbm/detail/lightgbm_log.hpp>
#include <raytrain/backend/lightgbm/lightgbm_call.hpp>
#include <raytrain/collective/collective.hpp>
#include <raytrain/core/error.hpp>

namespace raytrain {

/// Makes a thread one of the workers that train a model of LightGBM together: what LightGBM exchanges goes through the
/// worker's collective, and LightGBM opens no connection of its own.
///
/// LightGBM keeps its network for each thread: datasets and models that are to be distributed are made and used on this
/// thread while this exists, with the parameter `num_machines`. A thread has one at a time.
///
/// Threads: one, from construction to destruction.
class LightGBMNetwork {
 public:
  /// `collective` outlives it.
  ///
  /// Errors: `invalid_call` when the thread has one already.
  explicit LightGBMNetwork(Collective& collective) : exchange_{collective} {
    if (current() != nullptr) {
      throw Error{Errc::invalid_call, "LightGBMNetwork", "this thread has a network already", "keep one at a time"};
    }
    detail::LightGBMLog::keep();
    // The types are LightGBM's, which takes both as pointers to void.
    detail::lightgbm::ReduceScatter const reduce = &LightGBMNetwork::on_reduce_scatter;
    detail::lightgbm::AllGather const gather = &LightGBMNetwork::on_all_gather;
    detail::lightgbm_call(detail::lightgbm::LGBM_NetworkInitWithFunctions(
                              static_cast<int>(collective.size().value), static_cast<int>(collective.rank().value),
                              reinterpret_cast<void*>(reduce), reinterpret_cast<void*>(gather)),
                          "LGBM_NetworkInitWithFunctions");
    current() = this;
  }
  LightGBMNetwork(LightGBMNetwork const&) = delete;
  auto operator=(LightGBMNetwork const&) -> LightGBMNetwork& = delete;
  ~LightGBMNetwork() {
    detail::lightgbm::LGBM_NetworkFree();
    current() = nullptr;
  }

 private:
  using Byte = detail::LightGBMExchange::Byte;

  /// This thread's network: LightGBM passes no context to the functions that it calls.
  static auto current() noexcept -> LightGBMNetwork*& {
    thread_local LightGBMNetwork* network = nullptr;
    return network;
  }

  /// Keeps an exception for `lightgbm_call`, since LightGBM turns it into an error code. It may pass through LightGBM,
  /// which exchanges nothing within its parallel regions.
  template <class Work>
  static void keep_what_is_thrown(Work const& work) {
    try {
      work();
    } catch (...) {
      detail::lightgbm_thrown() = std::current_exception();
      throw;
    }
  }

  static void on_all_gather(char* input, std::int32_t input_bytes, std::int32_t const*, std::int32_t const* lengths,
                            int blocks, char* output, std::int32_t) {
    keep_what_is_thrown([&] {
      auto const mine = std::span{bytes(input), static_cast<std::size_t>(input_bytes)};
      current()->exchange_.all_gather(mine, {lengths, lengths + blocks}, bytes(output));
    });
  }

  static void on_reduce_scatter(char* input, std::int32_t, int type_bytes, std::int32_t const* starts,
                                std::int32_t const* lengths, int blocks, char* output, std::int32_t,
                                detail::lightgbm::Reducer const& reducer) {
    keep_what_is_thrown([&] {
      current()->exchange_.reduce_scatter(
          bytes(input), type_bytes, {{starts, starts + blocks}, {lengths, lengths + blocks}}, bytes(output), reducer);
    });
  }

  static auto bytes(char* data) noexcept -> Byte* { return reinterpret_cast<Byte*>(data); }

  detail::LightGBMExchange exchange_;
};

}  // namespace raytrain
