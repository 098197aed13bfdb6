#include "renaissance/backend/backend.h"

#include "backend/factories.h"

namespace tr {

std::unique_ptr<Context> make_context(std::shared_ptr<const CompiledModel> model) {
  TR_CHECK(!model->request.plan_only, StateError,
           "context: the model was compiled for planning only; compile it to run");
  return model->request.target.backend == BackendKind::CPU ? make_cpu_context(std::move(model))
                                                           : make_cuda_context(std::move(model));
}

}  // namespace tr
