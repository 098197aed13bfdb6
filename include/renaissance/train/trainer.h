/// Training and evaluation of a recipe, from one static memory plan.
///
///   Trainer trainer(load_recipe("recipe.yaml"));   // reads data, compiles, allocates, initializes
///   TrainResult result = trainer.run(observer);    // allocates nothing
///   write_safetensors("weights.safetensors", trainer.state_dict());
#pragma once

#include <memory>

#include "renaissance/backend/backend.h"
#include "renaissance/train/checkpoint.h"
#include "renaissance/train/metrics.h"
#include "renaissance/train/recipe.h"

namespace tr {

/// Sizes of a recipe's data: from its files, or as the recipe states them where there are none.
struct DataInfo {
  int64_t train_samples = 0, val_samples = 0;
  int64_t channels = 0, height = 0, width = 0, classes = 0;
};

/// Reads headers only. Files that are missing are fine when the recipe states counts and sizes and
/// `files_needed` is false; a statement that disagrees with a file is a DataError.
DataInfo data_info(const Recipe& recipe, bool files_needed);

/// How samples are cut into steps. Per rank and step the batch is `batch`; the last training step takes
/// floor(rest / ranks) samples per rank (up to ranks − 1 samples of an epoch are left out, others each
/// epoch); validation counts every sample exactly once, padding the last ranks.
struct StepPlan {
  int64_t batch = 0, steps = 0, last_batch = 0;  ///< `steps` whole ones, then one of last_batch if > 0
  int64_t val_batch = 0, val_steps = 0, val_last_batch = 0;
  int64_t steps_per_epoch() const { return steps + (last_batch > 0 ? 1 : 0); }
  int64_t val_steps_per_epoch() const { return val_steps + (val_last_batch > 0 ? 1 : 0); }
};
/// RecipeError when the batch is larger than the data.
StepPlan plan_steps(const Recipe& recipe, const DataInfo& info);

/// What a recipe says of how gradients become updates, and of which parameters get none.
void set_update_options(const Recipe& recipe, CompileRequest& request);
/// Everything compile() needs, from a recipe and the sizes of its data.
CompileRequest compile_request(const Recipe& recipe, const DataInfo& info, bool plan_only);

class Trainer {
 public:
  /// Throws before anything is written: RecipeError, DataError, IoError, NotSupportedError, DeviceError.
  explicit Trainer(const Recipe& recipe);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Trains the epochs that are left, validating after each. StateError after more than
  /// `train.max_skipped_steps` steps in a row whose gradients were not finite: the text says which step and
  /// what to change.
  TrainResult run(Observer& observer);
  /// One pass over the validation set.
  Metrics evaluate();
  /// The same with the averaged weights; StateError without EMA.
  Metrics evaluate_averaged();

  /// Weights and statistics under torchvision's names and shapes.
  StateDict state_dict() const;
  /// The averaged weights under the same names, with the same statistics; StateError without EMA.
  StateDict ema_state_dict() const;
  /// Strict: DataError lists missing, unexpected and differently shaped tensors.
  void load_state_dict(const StateDict& state);

  /// How far run() came, over all calls and before a resume().
  const TrainingProgress& progress() const;
  /// Everything from which resume() goes on to the bit, in the middle of an epoch too.
  StateDict checkpoint();
  /// From now on run() writes checkpoints as the recipe's `checkpoint` section says, and one when it is
  /// stopped.
  void keep_checkpoints(const CheckpointFolder& folder);
  /// The next run() goes on from `checkpoint`, which `source` names in errors. Before anything changes:
  /// DataError for a file that is damaged, no checkpoint, or of another model or data; RecipeError with every
  /// key that would have changed the training so far.
  void resume(const StateDict& checkpoint, const std::string& source);

  const CompiledModel& model() const;
  const Recipe& recipe() const;
  Context& context();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tr
