/// Everything a training is, as a plain value: from YAML, from the command line, or built in C++.
/// docs/recipes.md lists every key. Parsing reports every mistake with its place in the file and, for an
/// unknown key, the nearest known one; all in one RecipeError.
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "renaissance/graph/blueprint.h"
#include "renaissance/graph/memory_plan.h"
#include "renaissance/graph/recompute.h"
#include "renaissance/graph/schedule.h"
#include "renaissance/graph/target.h"

namespace tr {

enum class DataSource : uint8_t { IDX, SYNTHETIC };

enum class InitScheme : uint8_t { PYTORCH, KAIMING, XAVIER };

/// `data:`
struct DataRecipe {
  DataSource source = DataSource::IDX;
  /// IDX: a folder with the four files of the MNIST family, .gz or not …
  std::filesystem::path path;
  /// … or each file by itself; those given win over `path`.
  std::filesystem::path train_images, train_labels, val_images, val_labels;
  int64_t classes = 0;
  std::vector<std::string> class_names;  ///< for predict; empty: numbers
  /// Counts and sizes: checked against the files where they are present, and enough for `plan` where they
  /// are not. 0: take them from the files.
  int64_t train_samples = 0, val_samples = 0;
  int64_t channels = 0, height = 0, width = 0;
  std::vector<double> mean, std;  ///< of pixels in 0…1, one per channel or one for all; empty: 0 and 1
  int64_t workers = 1;            ///< loader threads

  friend bool operator==(const DataRecipe&, const DataRecipe&) = default;
};

/// `augment:`; training only.
struct AugmentRecipe {
  int64_t crop_padding = 0;                      ///< zero padding, then a random crop of the original size
  bool horizontal_flip = false;                  ///< with probability 1/2
  double random_erasing = 0.0;                   ///< probability of erasing a box; 0: never
  std::vector<double> erasing_area{0.02, 0.33};  ///< least and most, as fractions of the image
  std::vector<double> erasing_ratio{0.3, 3.3};   ///< least and most height / width
  double erasing_value = 0.0;                    ///< of erased pixels, after normalization
  double mixup = 0.0, cutmix = 0.0;              ///< alpha of λ ~ Beta(alpha, alpha); 0: not used
  double mix_switch = 0.5;                       ///< both given: the share of batches that cutmix mixes
  double mix_probability = 1.0;                  ///< of a batch to be mixed at all

  friend bool operator==(const AugmentRecipe&, const AugmentRecipe&) = default;
};

/// `model:` a name of the zoo with options, or layers written out.
struct ModelRecipe {
  std::string name;  ///< "resnet50"; empty when `layers` is given
  BluePrint layers;
  /// Of a named network; nothing: as published.
  std::optional<double> dropout, drop_path;

  friend bool operator==(const ModelRecipe&, const ModelRecipe&) = default;
};

/// `optimizer:`
struct OptimizerRecipe {
  OptimizerKind kind = OptimizerKind::SGD;
  double learning_rate = 0.1;
  double momentum = 0.9;
  double weight_decay = 0.0;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  bool decay_norm_and_bias = false;  ///< PyTorch's habit: decay for every parameter
  bool decoupled_decay = false;      ///< sgd, momentum, nesterov: w *= 1 - rate × decay, then the step
  double clip_norm = 0.0;            ///< the most that the norm of all gradients may be; 0: any
  double trust_coefficient = 0.001;  ///< of lars

  friend bool operator==(const OptimizerRecipe&, const OptimizerRecipe&) = default;
};

enum class ScheduleInterval : uint8_t { STEP, EPOCH };

/// `schedule:`; lengths in epochs, fractions count. The formulas are ScheduleSpec's.
struct ScheduleRecipe {
  ScheduleKind kind = ScheduleKind::CONSTANT;
  double warmup_epochs = 0.0;
  double warmup_start = 0.0;    ///< fraction of lr
  double final_fraction = 0.0;  ///< of lr, at the end
  double step_epochs = 30.0;    ///< step: multiply by gamma every so many epochs
  double gamma = 0.1;           ///< exponential: per epoch
  ScheduleInterval interval = ScheduleInterval::STEP;
  WarmupKind warmup = WarmupKind::LINEAR;
  std::vector<double> milestones;                    ///< multi_step: epochs after which to multiply by gamma
  double power = 1.0;                                ///< polynomial
  double restart_epochs = 10.0;                      ///< cosine_restarts: of the first cycle
  int64_t restart_mult = 1;                          ///< of each cycle to the one before it
  double pct_start = 0.3;                            ///< one_cycle: fraction of the training that rises
  double div_factor = 25.0, final_div_factor = 1e4;  ///< lr / first rate, first rate / last rate
  Annealing annealing = Annealing::COSINE;

  friend bool operator==(const ScheduleRecipe&, const ScheduleRecipe&) = default;
};

/// `train:`
struct TrainRecipe {
  int64_t epochs = 10;
  int64_t batch_size = 128;           ///< per rank
  int64_t val_batch_size = 0;         ///< per rank; 0: as batch_size
  int64_t accumulate = 1;             ///< batches whose gradients make one update
  bool bn_folded = false;             ///< evaluation has one scale and bias per channel for batch norm
  int64_t resolution = 0;             ///< 0: the data's
  int64_t val_resolution = 0;         ///< 0: as resolution
  int64_t low_resolution = 0;         ///< second training resolution; 0: none
  int64_t low_resolution_epochs = 0;  ///< the first so many epochs train at low_resolution
  double label_smoothing = 0.0;
  InitScheme init = InitScheme::PYTORCH;
  uint64_t seed = 0;
  int64_t log_interval = 20;               ///< steps between progress reports
  int64_t max_skipped_steps = 100;         ///< more steps in a row with gradients that are not finite end it
  std::vector<std::string> freeze;         ///< globs over parameter names; what matches keeps its value
  bool freeze_statistics = false;          ///< running statistics of batch norm that is frozen whole, too
  double loss_scale = 65536.0;             ///< fp16: the first
  int64_t loss_scale_growth_steps = 2000;  ///< fp16: clean steps until it doubles; 0: it never changes

  friend bool operator==(const TrainRecipe&, const TrainRecipe&) = default;
};

/// `ema:` averaged weights beside the trained ones.
struct EmaRecipe {
  double decay = 0.0;         ///< of the average, each update; 0: no average
  bool warmup = true;         ///< a lower decay in the first updates: EmaSpec
  int64_t switch_epochs = 0;  ///< training goes on from the average after every so many; 0: never

  friend bool operator==(const EmaRecipe&, const EmaRecipe&) = default;
};

/// `checkpoint:` when a training writes what it can go on from.
struct CheckpointRecipe {
  int64_t every_epochs = 1;  ///< after every so many epochs, and after the last; 0: not
  int64_t every_steps = 0;   ///< after every so many steps since the training began; 0: not
  int64_t keep_last = 2;     ///< older ones are removed
  bool keep_best = true;     ///< the epoch of the highest val_top1 has a file of its own

  friend bool operator==(const CheckpointRecipe&, const CheckpointRecipe&) = default;
};

struct Recipe {
  std::string name = "unnamed";
  DataRecipe data;
  AugmentRecipe augment;
  ModelRecipe model;
  OptimizerRecipe optimizer;
  ScheduleRecipe schedule;
  TrainRecipe train;
  EmaRecipe ema;
  CheckpointRecipe checkpoint;
  Precision precision = Precision::FP32;
  BackendKind device = BackendKind::CPU;
  int ranks = 1;
  int threads = 0;  ///< compute threads; 0: all cores
  bool deterministic = true;
  bool allow_tf32 = false;
  Layout layout = Layout::PACKED;              ///< `memory.layout`
  Recompute recompute = Recompute::AS_NEEDED;  ///< `memory.recompute`
  int64_t budget_bytes = 0;                    ///< `memory.budget`; 0: none
  int64_t workspace_cap_bytes = 32ll << 20;    ///< `memory.workspace_cap`
  std::filesystem::path init;                  ///< safetensors file that the weights start from; empty: none
  std::vector<std::string> init_except;  ///< globs over names; what matches starts from first values anyway
  std::filesystem::path run_dir;         ///< empty: runs/<name>

  friend bool operator==(const Recipe&, const Recipe&) = default;
};

/// Reads a recipe and applies `key=value` overrides (dotted keys, YAML values) before checking it.
Recipe load_recipe(const std::filesystem::path& file, const std::vector<std::string>& overrides = {});
/// The same from text; `source` names it in errors.
Recipe parse_recipe(const std::string& yaml, const std::string& source,
                    const std::vector<std::string>& overrides = {});
/// Cross-field checks that need no data: positive counts, known model, … Called by the two above.
void check_recipe(const Recipe& recipe);
/// The resolved recipe as YAML that load_recipe reads back to an equal value.
std::string recipe_to_yaml(const Recipe& recipe);

}  // namespace tr
