#include "renaissance/graph/target.h"

namespace tr {

Target default_target(BackendKind backend) {
  Target target;
  target.backend = backend;
  if (backend == BackendKind::CUDA) target.compute_capability = 90;
  return target;
}

}  // namespace tr
