/// One factory per backend; a build without a backend links the folder <backend>_absent instead.
#pragma once

#include "renaissance/backend/backend.h"

namespace tr {

std::unique_ptr<Context> make_cpu_context(std::shared_ptr<const CompiledModel> model,
                                          const ContextOptions& options);
std::unique_ptr<Context> make_cuda_context(std::shared_ptr<const CompiledModel> model,
                                           const ContextOptions& options);

int64_t available_cpu_bytes();
int64_t available_cuda_bytes();

}  // namespace tr
