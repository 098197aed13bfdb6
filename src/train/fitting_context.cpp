#include "train/fitting_context.h"

#include <algorithm>

namespace tr {

namespace {

int64_t needed_bytes(const CompiledModel& model) {
  return model.plan(Variant::TRAIN_BASE).total_bytes() * model.request.target.ranks;
}

/// The largest batch below the recipe's whose plan has at most `available` bytes; 0 where none has.
int64_t largest_batch(const CompiledModel& model, const Recipe& recipe, const DataInfo& info,
                      int64_t available) {
  const StepPlan steps = plan_steps(recipe, info);
  const auto fits = [&](int64_t batch) {
    Recipe smaller = recipe;
    smaller.train.batch_size = batch;
    smaller.train.val_batch_size = std::min(steps.val_batch, batch);
    return needed_bytes(compile(compile_request(smaller, info, true), model.catalog)) <= available;
  };
  int64_t most = 0, too_many = steps.batch;
  while (too_many - most > 1) {
    const int64_t middle = most + (too_many - most) / 2;
    (fits(middle) ? most : too_many) = middle;
  }
  return most;
}

}  // namespace

std::unique_ptr<Context> make_fitting_context(const std::shared_ptr<const CompiledModel>& model,
                                              const Recipe& recipe, const DataInfo& info) {
  const Target& target = model->request.target;
  const int64_t available = available_bytes(target);
  if (available < 0 || needed_bytes(*model) <= available) return make_context(model);
  const int64_t most = largest_batch(*model, recipe, info, available);
  throw Error(ErrorKind::DeviceError,
              cat(backend_name(target.backend), ": the plan needs ", needed_bytes(*model), " bytes on ",
                  target.ranks, " ranks, ", available, " are available; ",
                  most > 0 ? cat("the largest train.batch_size that fits is ", most)
                           : std::string("not even a batch of 1 fits")));
}

}  // namespace tr
