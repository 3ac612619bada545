// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <utility>

#include <raytrain/launch/message_sink.hpp>
#include <raytrain/message/message.hpp>

/// Gives workers' messages to a function, on the thread that sends them.
class FunctionQueue final : public raytrain::MessageQueue {
 public:
  using Take = std::function<void(raytrain::WorkerMessage)>;

  explicit FunctionQueue(Take take = [](raytrain::WorkerMessage const&) {}) : take_{std::move(take)} {}

  auto send(raytrain::WorkerMessage message) -> bool override {
    take_(std::move(message));
    return true;
  }
  auto try_send(raytrain::WorkerMessage& message) -> bool override { return send(std::move(message)); }
  void push(raytrain::WorkerMessage message) override { take_(std::move(message)); }

 private:
  Take take_;
};
