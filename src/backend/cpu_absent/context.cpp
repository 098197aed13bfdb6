#include "backend/factories.h"

namespace tr {

std::unique_ptr<Context> make_cpu_context(std::shared_ptr<const CompiledModel>, const ContextOptions&) {
  throw Error(ErrorKind::NotSupportedError,
              "device 'cpu': this build has no cpu backend; configure with -DTR_CPU=ON, or plan only");
}

int64_t available_cpu_bytes() { return -1; }

}  // namespace tr
