/// A context for a recipe's model, or how much smaller the batch would have to be.
#pragma once

#include "renaissance/backend/backend.h"
#include "renaissance/train/trainer.h"

namespace tr {

/// Like make_context(); where memory is short, the DeviceError names needed and available bytes and the
/// largest train.batch_size that fits, found by planning, before anything is allocated.
std::unique_ptr<Context> make_fitting_context(const std::shared_ptr<const CompiledModel>& model,
                                              const Recipe& recipe, const DataInfo& info);

}  // namespace tr
