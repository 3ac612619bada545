// SPDX-License-Identifier: Apache-2.0
#pragma once

#define USE_C10D_GLOO  // the first thing that ProcessGroupGloo.hpp looks at
#include <string>

#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

/// Joins the ranks of this host, or of several by a network, as LibTorch uses Gloo. `store`: a file that all of them
/// see, and that is not there yet. `interface`: of that network, by its name on each host.
inline auto join_by_gloo(int rank, int ranks, std::string const& store, std::string const& interface = {})
    -> c10::intrusive_ptr<c10d::ProcessGroupGloo> {
  using c10d::ProcessGroupGloo;
  auto const options = ProcessGroupGloo::Options::create();
  options->devices.push_back(interface.empty() ? ProcessGroupGloo::createDeviceForHostname("127.0.0.1")
                                               : ProcessGroupGloo::createDeviceForInterface(interface));
  return c10::make_intrusive<ProcessGroupGloo>(c10::make_intrusive<c10d::FileStore>(store, ranks), rank, ranks,
                                               options);
}
