#include <link.h>

#include <set>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <raytrain/backend/mpi/communicator.hpp>
#include <raytrain/collective/mpi.hpp>

#include "mpi.hpp"

namespace {

// Of the plugins that this process has loaded, what carries messages: in Open MPI mca_pml_ob1.so and the like.
auto transports() -> std::string {
  std::set<std::string> names;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* found) {
        std::string_view name{info->dlpi_name};
        name.remove_prefix(name.rfind('/') == std::string_view::npos ? 0 : name.rfind('/') + 1);
        name = name.substr(0, name.find(".so"));
        auto& all = *static_cast<std::set<std::string>*>(found);
        for (std::string_view const kind : {"mca_pml_", "mca_mtl_", "mca_btl_"}) {
          if (name.starts_with(kind)) all.insert(std::string{name.substr(4)});
        }
        for (std::string_view const library : {"libucp", "libfabric", "libpsm2"}) {
          if (name == library) all.insert(std::string{library.substr(3)});
        }
        return 0;
      },
      &names);
  std::string text;
  for (auto const& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "does not say" : text;
}

}  // namespace

void examine_mpi(raytrain::MpiContext& ctx, Findings& findings) {
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(version, &length);
  std::string_view text{version, static_cast<std::size_t>(length)};
  text = text.substr(0, text.find_first_of(",\n"));
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized == 0) return findings.say("MPI", fmt::format("{}, not in use: the workers are threads", text));
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  findings.say("MPI", fmt::format("{}, {}, loaded transports: {}", text, raytrain::detail::thread_level_name(level),
                                  transports()));
  if (level < MPI_THREAD_MULTIPLE) {
    findings.advise(
        "this MPI does not offer MPI_THREAD_MULTIPLE: MPI calls of your own must come from the worker's thread");
  }
  raytrain::MpiGroup const group{raytrain::communicator(ctx)};
  findings.say("Arrays", fmt::format("travel through {}", group.transport()));
  if (group.transport() == "MPI" && ctx.local_world_size().value > 1) {
    findings.advise(
        "ranks of one host do not share memory, perhaps since containers keep them apart: give them one PID "
        "namespace and the right to open each other's files in /proc");
  }
}
