#include "renaissance/core/error.h"
#include "support/cuda_rig.h"

namespace tr::test {

bool has_cuda_device() { return false; }

std::unique_ptr<DeviceMirror> make_device_mirror(const Target&) {
  throw Error(ErrorKind::NotSupportedError,
              "operator rig: this build has no cuda backend; configure with -DTR_CUDA=ON");
}

int64_t free_device_bytes() { return 0; }

}  // namespace tr::test
