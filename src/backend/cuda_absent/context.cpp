#include "backend/factories.h"

namespace tr {

std::unique_ptr<Context> make_cuda_context(std::shared_ptr<const CompiledModel>, const ContextOptions&) {
  throw Error(ErrorKind::NotSupportedError,
              "device 'cuda': this build has no cuda backend; it can plan for one, not run on one");
}

int64_t available_cuda_bytes() { return -1; }

}  // namespace tr
