// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <optional>

#include "torch_run.hpp"

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)
#include <malloc.h>

// mallinfo2, and malloc itself: a sanitizer has another one.
#if __GLIBC_PREREQ(2, 33)

namespace {

using namespace raytrain;

/// Whether freed memory of this size goes back to the system at once, since it was mapped for itself.
auto goes_back(std::size_t size_bytes) -> bool {
  malloc_trim(0);
  auto const before = mallinfo2().hblks;
  auto const free = [](void* memory) { std::free(memory); };
  std::unique_ptr<void, decltype(free)> const memory{std::malloc(size_bytes), free};
  REQUIRE(memory);
  return mallinfo2().hblks > before;
}

constexpr std::size_t large = 48 << 20;  // fits in the heap of a thread

TEST_CASE("freed memory stays with the process while fit() trains, and only then") {
  auto during = true;
  run_once({.workers = 1}, [&](TorchContext&) { during = goes_back(large); });
  CHECK_FALSE(during);
  CHECK(goes_back(large));
}

TEST_CASE("freed memory stays as long as one of two trainings goes on") {
  std::optional<raytrain::detail::FreedMemoryStays> first{std::in_place};
  std::optional<raytrain::detail::FreedMemoryStays> second{std::in_place};
  first.reset();
  CHECK_FALSE(goes_back(large));
  second.reset();
  CHECK(goes_back(large));
}

TEST_CASE("what the environment says of freed memory is left alone") {
  setenv("GLIBC_TUNABLES", "glibc.malloc.trim_threshold=100000", 1);
  {
    raytrain::detail::FreedMemoryStays const stays;
    CHECK(goes_back(large));
  }
  unsetenv("GLIBC_TUNABLES");
  CHECK(goes_back(large));
}

}  // namespace

#endif
#endif
