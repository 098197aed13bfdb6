#include "train/fitting_context.h"

#include "renaissance/graph/outside_memory.h"
#include "renaissance/train/fit.h"

namespace tr {

namespace {

int64_t needed_bytes(const CompiledModel& model) {
  return model.plan(Variant::TRAIN_BASE).total_bytes() * model.request.target.ranks;
}

/// The largest batch that fits, 0 where none does. What the device takes beside an arena is counted by the
/// search and gone from `available` already.
int64_t largest_batch(const Recipe& recipe, const DataInfo& info, const Target& target, int64_t available) {
  const auto overhead = measured_overhead(target);
  try {
    return fit_batch(recipe, info, {.memory_bytes = available + (overhead ? overhead->bytes() : 0)})
        .fits.batch;
  } catch (const Error&) {
    return 0;
  }
}

}  // namespace

std::unique_ptr<Context> make_fitting_context(const std::shared_ptr<const CompiledModel>& model,
                                              const Recipe& recipe, const DataInfo& info) {
  const Target& target = model->request.target;
  const int64_t available = available_bytes(target);
  if (available < 0 || needed_bytes(*model) <= available) return make_context(model);
  const int64_t most = largest_batch(recipe, info, target, available);
  throw Error(ErrorKind::DeviceError,
              cat(backend_name(target.backend), ": the plan needs ", needed_bytes(*model), " bytes on ",
                  target.ranks, " ranks, ", available, " are available; ",
                  most > 0 ? cat("the largest train.batch_size that fits is ", most)
                           : std::string("not even a batch of 1 fits")));
}

}  // namespace tr
