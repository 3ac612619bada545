// SPDX-License-Identifier: Apache-2.0
#pragma once

#define USE_C10D_GLOO  // the first thing that ProcessGroupGloo.hpp looks at
#include <string>

#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

/// Joins the ranks of this host, as LibTorch uses Gloo. `store`: a file that all of them see, and that is not there
/// yet.
inline auto join_by_gloo(int rank, int ranks, std::string const& store) -> c10::intrusive_ptr<c10d::ProcessGroupGloo> {
  auto const options = c10d::ProcessGroupGloo::Options::create();
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  return c10::make_intrusive<c10d::ProcessGroupGloo>(c10::make_intrusive<c10d::FileStore>(store, ranks), rank, ranks,
                                                     options);
}
