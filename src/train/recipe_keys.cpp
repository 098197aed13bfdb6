#include "train/recipe_keys.h"

#include "renaissance/models.h"
#include "train/recipe_blueprint.h"
#include "train/recipe_key_types.h"

namespace tr {

namespace {

#define TR_MEMBER(path) \
  [](Recipe & recipe) -> auto& { return recipe.path; }

constexpr NumberRange NOT_NEGATIVE{.low = 0.0};
constexpr NumberRange POSITIVE{.low = 0.0, .open_low = true};
constexpr NumberRange FRACTION{.low = 0.0, .high = 1.0};
constexpr NumberRange BELOW_ONE{.low = 0.0, .high = 1.0, .open_high = true};

template <typename E>
std::vector<std::pair<std::string, E>> name_choices(std::string_view (*name)(E),
                                                    std::initializer_list<E> values) {
  std::vector<std::pair<std::string, E>> choices;
  for (const E value : values) choices.emplace_back(std::string(name(value)), value);
  return choices;
}

RecipeKey also_called(RecipeKey key, std::string synonyms) {
  key.synonyms = std::move(synonyms);
  return key;
}

RecipeKey layers_key() {
  RecipeKey key;
  key.key = "model.layers";
  key.type = "list of layers";
  key.help = "a network written out; see below";
  key.read = [](const YamlTree& value, Recipe& recipe, Mistakes& mistakes) {
    recipe.model.layers = read_layers(value, mistakes);
  };
  key.write = [](Recipe& recipe) {
    const BluePrint& layers = recipe.model.layers;
    return layers == BluePrint{} ? YamlTree{} : write_layers(layers);
  };
  key.check = [](Recipe&) { return std::string(); };
  return key;
}

std::string model_help() {
  std::string names;
  for (const std::string& name : model_names()) names += (names.empty() ? "" : ", ") + name;
  return cat("a ready network: ", names);
}

void add_data_keys(std::vector<RecipeKey>& keys) {
  keys.push_back(also_called(
      choice_key<DataSource>(
          "data.source", TR_MEMBER(data.source),
          {{"idx", DataSource::IDX}, {"synthetic", DataSource::SYNTHETIC}},
          "files of the MNIST family, or learnable made-up images; synthetic data take the counts and "
          "sizes below, and where those are absent the model's input and 1024 + 256 samples"),
      "dataset type kind name"));
  keys.push_back(also_called(path_key("data.path", TR_MEMBER(data.path),
                                      "folder with train-images-idx3-ubyte, train-labels-idx1-ubyte, "
                                      "t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, each plain or .gz"),
                             "dir root folder"));
  keys.push_back(
      path_key("data.train_images", TR_MEMBER(data.train_images), "this file by itself; wins over path"));
  keys.push_back(path_key("data.train_labels", TR_MEMBER(data.train_labels), "likewise"));
  keys.push_back(path_key("data.val_images", TR_MEMBER(data.val_images), "likewise"));
  keys.push_back(path_key("data.val_labels", TR_MEMBER(data.val_labels), "likewise"));
  keys.push_back(also_called(integer_key<int64_t>("data.classes", TR_MEMBER(data.classes), 0,
                                                  "labels are 0 to classes-1; 0: not stated"),
                             "num_classes nclasses"));
  keys.push_back(also_called(texts_key("data.class_names", TR_MEMBER(data.class_names),
                                       "what predict calls them, in order; empty: their numbers"),
                             "names labels label_names"));
  keys.push_back(
      integer_key<int64_t>("data.train_samples", TR_MEMBER(data.train_samples), 0,
                           "checked against the files, and enough to plan without them; 0: as the files"));
  keys.push_back(integer_key<int64_t>("data.val_samples", TR_MEMBER(data.val_samples), 0, "likewise"));
  keys.push_back(integer_key<int64_t>("data.channels", TR_MEMBER(data.channels), 0, "likewise"));
  keys.push_back(integer_key<int64_t>("data.height", TR_MEMBER(data.height), 0, "likewise"));
  keys.push_back(integer_key<int64_t>("data.width", TR_MEMBER(data.width), 0, "likewise"));
  keys.push_back(numbers_key(
      "data.mean", TR_MEMBER(data.mean), {},
      "subtracted from pixels scaled to 0..1, one for all channels or one per channel; empty: 0"));
  keys.push_back(
      numbers_key("data.std", TR_MEMBER(data.std), POSITIVE, "what they are then divided by; empty: 1"));
  keys.push_back(also_called(integer_key<int64_t>("data.workers", TR_MEMBER(data.workers), 1,
                                                  "loader threads; their number does not change the data"),
                             "num_workers loaders"));
}

/// What `augment:` has beside crops and flips.
void add_mix_keys(std::vector<RecipeKey>& keys) {
  keys.push_back(also_called(number_key("augment.random_erasing", TR_MEMBER(augment.random_erasing), FRACTION,
                                        "probability of erasing a box of a training image"),
                             "erasing reprob random_erase"));
  keys.push_back(numbers_key("augment.erasing_area", TR_MEMBER(augment.erasing_area), FRACTION,
                             "least and most area of the box, as fractions of the image"));
  keys.push_back(numbers_key("augment.erasing_ratio", TR_MEMBER(augment.erasing_ratio), POSITIVE,
                             "least and most ratio of the box's height to its width"));
  keys.push_back(number_key("augment.erasing_value", TR_MEMBER(augment.erasing_value), {},
                            "of erased pixels after normalization; cuda: the byte nearest to it"));
  keys.push_back(
      also_called(number_key("augment.mixup", TR_MEMBER(augment.mixup), NOT_NEGATIVE,
                             "alpha: training batches are mixed by lambda ~ Beta(alpha, alpha); 0: not"),
                  "mixup_alpha"));
  keys.push_back(also_called(number_key("augment.cutmix", TR_MEMBER(augment.cutmix), NOT_NEGATIVE,
                                        "alpha: a box of area 1 - lambda comes from the partner; 0: not"),
                             "cutmix_alpha"));
  keys.push_back(also_called(number_key("augment.mix_switch", TR_MEMBER(augment.mix_switch), FRACTION,
                                        "mixup and cutmix both given: probability of a batch to take cutmix"),
                             "mixup_switch_prob"));
  keys.push_back(also_called(number_key("augment.mix_probability", TR_MEMBER(augment.mix_probability),
                                        FRACTION, "of a batch to be mixed at all"),
                             "mixup_prob"));
}

void add_optimizer_keys(std::vector<RecipeKey>& keys) {
  using enum OptimizerKind;
  keys.push_back(also_called(
      choice_key<OptimizerKind>(
          "optimizer.kind", TR_MEMBER(optimizer.kind),
          name_choices<OptimizerKind>(optimizer_name,
                                      {SGD, MOMENTUM, NESTEROV, ADAM, ADAMW, LARS, LARS_NESTEROV}),
          "sgd has no momentum; adam adds weight decay to the gradient, adamw decouples it; lars is momentum "
          "with a learning rate for each weight tensor, from its norm and its gradient's"),
      "name type algorithm"));
  keys.push_back(also_called(number_key("optimizer.learning_rate", TR_MEMBER(optimizer.learning_rate),
                                        POSITIVE, "the schedule's highest"),
                             "lr base_lr"));
  keys.push_back(number_key("optimizer.momentum", TR_MEMBER(optimizer.momentum), BELOW_ONE,
                            "of momentum, nesterov, lars and lars_nesterov"));
  keys.push_back(also_called(
      number_key("optimizer.weight_decay", TR_MEMBER(optimizer.weight_decay), NOT_NEGATIVE, "of weights"),
      "wd decay l2"));
  keys.push_back(number_key("optimizer.beta1", TR_MEMBER(optimizer.beta1), BELOW_ONE, "of adam and adamw"));
  keys.push_back(number_key("optimizer.beta2", TR_MEMBER(optimizer.beta2), BELOW_ONE, "likewise"));
  keys.push_back(also_called(
      number_key("optimizer.epsilon", TR_MEMBER(optimizer.epsilon), POSITIVE, "likewise, and of lars"),
      "eps"));
  keys.push_back(
      flag_key("optimizer.decay_norm_and_bias", TR_MEMBER(optimizer.decay_norm_and_bias),
               "true: decay every parameter, as PyTorch does unless told otherwise; false: weights only"));
  keys.push_back(also_called(flag_key("optimizer.decoupled_decay", TR_MEMBER(optimizer.decoupled_decay),
                                      "sgd, momentum, nesterov: w *= 1 - rate * decay before the step, in "
                                      "place of a decay added to the gradient"),
                             "decoupled decouple"));
  keys.push_back(
      also_called(number_key("optimizer.clip_norm", TR_MEMBER(optimizer.clip_norm), NOT_NEGATIVE,
                             "gradients are scaled down where the norm of all together is larger; 0: never"),
                  "clip max_norm max_grad_norm grad_clip gradient_clip"));
  keys.push_back(also_called(number_key("optimizer.trust_coefficient", TR_MEMBER(optimizer.trust_coefficient),
                                        POSITIVE, "of lars: how far a step may go, relative to the weights"),
                             "eta trust"));
}

void add_schedule_keys(std::vector<RecipeKey>& keys) {
  using enum ScheduleKind;
  keys.push_back(also_called(choice_key<ScheduleKind>("schedule.kind", TR_MEMBER(schedule.kind),
                                                      {{"constant", CONSTANT},
                                                       {"step", STEP},
                                                       {"multi_step", MULTI_STEP},
                                                       {"exponential", EXPONENTIAL},
                                                       {"polynomial", POLYNOMIAL},
                                                       {"linear", LINEAR},
                                                       {"cosine", COSINE},
                                                       {"cosine_restarts", COSINE_RESTARTS},
                                                       {"one_cycle", ONE_CYCLE}},
                                                      "course of the learning rate after the warmup"),
                             "name type policy"));
  keys.push_back(choice_key<ScheduleInterval>(
      "schedule.interval", TR_MEMBER(schedule.interval),
      {{"step", ScheduleInterval::STEP}, {"epoch", ScheduleInterval::EPOCH}},
      "how often the learning rate changes; epoch: it keeps the value of the epoch's first step"));
  keys.push_back(choice_key<WarmupKind>(
      "schedule.warmup", TR_MEMBER(schedule.warmup),
      {{"linear", WarmupKind::LINEAR}, {"constant", WarmupKind::CONSTANT}},
      "linear: from warmup_start to the whole learning rate; constant: warmup_start throughout"));
  keys.push_back(also_called(number_key("schedule.warmup_epochs", TR_MEMBER(schedule.warmup_epochs),
                                        NOT_NEGATIVE, "length of the warmup in epochs; fractions count"),
                             "warmup_length"));
  keys.push_back(number_key("schedule.warmup_start", TR_MEMBER(schedule.warmup_start), FRACTION,
                            "fraction of the learning rate it starts from"));
  keys.push_back(also_called(
      number_key("schedule.final_fraction", TR_MEMBER(schedule.final_fraction), FRACTION,
                 "cosine, cosine_restarts, linear, polynomial: fraction of the learning rate at the end"),
      "eta_min min_lr"));
  keys.push_back(also_called(number_key("schedule.step_epochs", TR_MEMBER(schedule.step_epochs), POSITIVE,
                                        "step: epochs between two drops"),
                             "step_size"));
  keys.push_back(number_key("schedule.gamma", TR_MEMBER(schedule.gamma), POSITIVE,
                            "step, multi_step: factor of a drop; exponential: factor of an epoch"));
  keys.push_back(numbers_key("schedule.milestones", TR_MEMBER(schedule.milestones), POSITIVE,
                             "multi_step: epochs, rising, after which a drop comes; at most 16"));
  keys.push_back(
      number_key("schedule.power", TR_MEMBER(schedule.power), POSITIVE, "polynomial: its exponent"));
  keys.push_back(also_called(number_key("schedule.restart_epochs", TR_MEMBER(schedule.restart_epochs),
                                        POSITIVE, "cosine_restarts: epochs to the first restart"),
                             "t_0"));
  keys.push_back(
      also_called(integer_key<int64_t>("schedule.restart_mult", TR_MEMBER(schedule.restart_mult), 1,
                                       "cosine_restarts: each cycle is so many times as long as "
                                       "the one before it"),
                  "t_mult"));
  keys.push_back(number_key("schedule.pct_start", TR_MEMBER(schedule.pct_start), FRACTION,
                            "one_cycle: fraction of the training in which the learning rate rises"));
  keys.push_back(number_key("schedule.div_factor", TR_MEMBER(schedule.div_factor), POSITIVE,
                            "one_cycle: the first rate is the learning rate divided by it"));
  keys.push_back(number_key("schedule.final_div_factor", TR_MEMBER(schedule.final_div_factor), POSITIVE,
                            "one_cycle: the last rate is the first divided by it"));
  keys.push_back(
      also_called(choice_key<Annealing>("schedule.annealing", TR_MEMBER(schedule.annealing),
                                        {{"cosine", Annealing::COSINE}, {"linear", Annealing::LINEAR}},
                                        "one_cycle: the shape of its rise and fall"),
                  "anneal_strategy"));
}

void add_train_keys(std::vector<RecipeKey>& keys) {
  using enum InitScheme;
  keys.push_back(
      also_called(integer_key<int64_t>("train.epochs", TR_MEMBER(train.epochs), 0, "0: only evaluate"),
                  "num_epochs max_epochs"));
  keys.push_back(also_called(
      integer_key<int64_t>("train.batch_size", TR_MEMBER(train.batch_size), 1, "per rank"), "batch bs"));
  keys.push_back(integer_key<int64_t>("train.val_batch_size", TR_MEMBER(train.val_batch_size), 0,
                                      "per rank; 0: as batch_size"));
  keys.push_back(also_called(
      integer_key<int64_t>("train.accumulate", TR_MEMBER(train.accumulate), 1,
                           "batches whose gradients make one update, as one batch of all their samples; an "
                           "epoch's last update takes what is left"),
      "accumulation accumulation_steps grad_accum accum_steps iter_size"));
  keys.push_back(flag_key("train.bn_folded", TR_MEMBER(train.bn_folded),
                          "evaluation computes batch norm as one scale and one bias per channel, found once "
                          "before it"));
  keys.push_back(also_called(integer_key<int64_t>("train.resolution", TR_MEMBER(train.resolution), 0,
                                                  "of training images; 0: the data's"),
                             "image_size img_size size"));
  keys.push_back(integer_key<int64_t>("train.val_resolution", TR_MEMBER(train.val_resolution), 0,
                                      "of validation images; 0: as resolution"));
  keys.push_back(integer_key<int64_t>("train.low_resolution", TR_MEMBER(train.low_resolution), 0,
                                      "second training resolution, for progressive resizing; 0: none"));
  keys.push_back(integer_key<int64_t>("train.low_resolution_epochs", TR_MEMBER(train.low_resolution_epochs),
                                      0, "the first so many epochs train at low_resolution"));
  keys.push_back(also_called(number_key("train.label_smoothing", TR_MEMBER(train.label_smoothing), FRACTION,
                                        "of the training loss; validation reports plain cross entropy"),
                             "smoothing"));
  keys.push_back(choice_key<InitScheme>("train.init", TR_MEMBER(train.init),
                                        {{"pytorch", PYTORCH}, {"kaiming", KAIMING}, {"xavier", XAVIER}},
                                        "first values of the weights; pytorch: as its layers do by default"));
  keys.push_back(
      seed_key("train.seed", TR_MEMBER(train.seed), "the same seed on the same machine gives the same bits"));
  keys.push_back(integer_key<int64_t>("train.log_interval", TR_MEMBER(train.log_interval), 1,
                                      "steps between progress reports"));
  keys.push_back(
      integer_key<int64_t>("train.max_skipped_steps", TR_MEMBER(train.max_skipped_steps), 0,
                           "more steps in a row whose gradients are not finite end the training at "
                           "the next progress report; such steps change nothing"));
  keys.push_back(also_called(
      texts_key("train.freeze", TR_MEMBER(train.freeze),
                "parameters that keep their values, by name or pattern; * stands for any characters"),
      "frozen freeze_layers"));
  keys.push_back(also_called(flag_key("train.freeze_statistics", TR_MEMBER(train.freeze_statistics),
                                      "batch norm whose parameters are all frozen trains with its running "
                                      "statistics, and keeps them"),
                             "freeze_bn"));
  keys.push_back(
      also_called(number_key("train.loss_scale", TR_MEMBER(train.loss_scale), {.low = 1.0, .high = 1e30},
                             "fp16: the first; halves, not below 1, where gradients overflow"),
                  "init_scale"));
  keys.push_back(
      also_called(integer_key<int64_t>(
                      "train.loss_scale_growth_steps", TR_MEMBER(train.loss_scale_growth_steps), 0,
                      "fp16: the scale doubles after so many steps without overflow; 0: it never changes"),
                  "growth_interval"));
}

void add_ema_keys(std::vector<RecipeKey>& keys) {
  keys.push_back(also_called(number_key("ema.decay", TR_MEMBER(ema.decay), BELOW_ONE,
                                        "of the averaged weights, each update; 0: none are kept"),
                             "momentum beta"));
  keys.push_back(flag_key("ema.warmup", TR_MEMBER(ema.warmup),
                          "update t takes min(decay, (1 + t) / (10 + t)), as TensorFlow's"));
  keys.push_back(also_called(
      integer_key<int64_t>("ema.switch_epochs", TR_MEMBER(ema.switch_epochs), 0,
                           "after every so many epochs training goes on from the averaged weights; 0: never"),
      "switch"));
}

void add_checkpoint_keys(std::vector<RecipeKey>& keys) {
  keys.push_back(
      also_called(integer_key<int64_t>("checkpoint.every_epochs", TR_MEMBER(checkpoint.every_epochs), 0,
                                       "write one after every so many epochs, and after the last; 0: not"),
                  "save_every save_freq save_interval"));
  keys.push_back(
      integer_key<int64_t>("checkpoint.every_steps", TR_MEMBER(checkpoint.every_steps), 0,
                           "write one after every so many steps since the training began; 0: not"));
  keys.push_back(also_called(integer_key<int64_t>("checkpoint.keep_last", TR_MEMBER(checkpoint.keep_last), 1,
                                                  "of these, keep the newest so many"),
                             "max_to_keep"));
  keys.push_back(also_called(flag_key("checkpoint.keep_best", TR_MEMBER(checkpoint.keep_best),
                                      "keep the epoch of the highest validation top-1 as best.safetensors; "
                                      "not where both numbers above are 0"),
                             "save_best"));
}

void add_machine_keys(std::vector<RecipeKey>& keys) {
  keys.push_back(also_called(
      choice_key<Precision>(
          "precision", TR_MEMBER(precision),
          name_choices<Precision>(precision_name, {Precision::FP32, Precision::FP16, Precision::BF16}),
          "of features and their gradients; parameters are kept in fp32"),
      "dtype amp"));
  keys.push_back(also_called(
      choice_key<BackendKind>("device", TR_MEMBER(device),
                              name_choices<BackendKind>(backend_name, {BackendKind::CPU, BackendKind::CUDA}),
                              "where to train"),
      "backend"));
  keys.push_back(
      also_called(integer_key<int>("ranks", TR_MEMBER(ranks), 1,
                                   "copies of the network that train together; each takes a batch"),
                  "world_size gpus"));
  keys.push_back(integer_key<int>("threads", TR_MEMBER(threads), 0, "compute threads; 0: all cores"));
  keys.push_back(
      flag_key("deterministic", TR_MEMBER(deterministic),
               "cuda: use only algorithms that give the same bits each time; the cpu always does"));
  keys.push_back(flag_key("allow_tf32", TR_MEMBER(allow_tf32),
                          "cuda: fp32 convolutions and matrix products may round their operands to 10 bits"));
  keys.push_back(choice_key<Layout>("memory.layout", TR_MEMBER(layout),
                                    name_choices<Layout>(layout_name, {Layout::PACKED, Layout::LINEAR}),
                                    "linear: every tensor has bytes of its own"));
  keys.push_back(
      bytes_key("memory.budget", TR_MEMBER(budget_bytes),
                "the most that one rank's arena may have; what does not fit is recomputed; 0: none"));
  keys.push_back(choice_key<Recompute>(
      "memory.recompute", TR_MEMBER(recompute),
      name_choices<Recompute>(recompute_name,
                              {Recompute::AS_NEEDED, Recompute::NONE, Recompute::CHEAP, Recompute::AUTO}),
      "which feature maps are computed again in backward: as the budget needs, none, what is cheap, or the "
      "most that a fifth of the step's time buys"));
  keys.push_back(bytes_key(
      "memory.workspace_cap", TR_MEMBER(workspace_cap_bytes),
      "cuda: the most that one library call may use as scratch; the cpu plans what oneDNN asks for"));
}

}  // namespace

std::vector<RecipeKey> recipe_keys() {
  std::vector<RecipeKey> keys;
  keys.push_back(text_key("name", TR_MEMBER(name), "of the training; part of run_dir"));
  keys.push_back(
      also_called(path_key("init", TR_MEMBER(init),
                           "safetensors file, a state_dict or a checkpoint, that weights and statistics "
                           "start from; its names and shapes must be the network's"),
                  "pretrained weights finetune load_from"));
  keys.push_back(texts_key("init_except", TR_MEMBER(init_except),
                           "with init: names, with * for anything, of what starts afresh as train.init says, "
                           "whatever the file holds; a new head is [\"fc.*\"]"));
  add_data_keys(keys);
  keys.push_back(
      integer_key<int64_t>("augment.crop_padding", TR_MEMBER(augment.crop_padding), 0,
                           "pixels of zeros around a training image before a random crop of its size"));
  keys.push_back(also_called(flag_key("augment.horizontal_flip", TR_MEMBER(augment.horizontal_flip),
                                      "mirror a training image with probability 1/2"),
                             "flip hflip"));
  add_mix_keys(keys);
  keys.push_back(also_called(text_key("model.name", TR_MEMBER(model.name), model_help()), "arch type"));
  keys.push_back(layers_key());
  keys.push_back(optional_number_key("model.dropout", TR_MEMBER(model.dropout), {0.0, 1.0},
                                     "of a ready network: probability of its dropout; absent: as published"));
  keys.push_back(optional_number_key("model.drop_path", TR_MEMBER(model.drop_path), {0.0, 1.0},
                                     "of a ready network: probability that its last block is dropped "
                                     "(stochastic depth), less in those before; absent: as published"));
  add_optimizer_keys(keys);
  add_schedule_keys(keys);
  add_train_keys(keys);
  add_ema_keys(keys);
  add_checkpoint_keys(keys);
  add_machine_keys(keys);
  keys.push_back(also_called(
      path_key("run_dir", TR_MEMBER(run_dir), "where checkpoints and logs go; empty: runs/ and the name"),
      "output out_dir output_dir"));
  return keys;
}

#undef TR_MEMBER

std::vector<RecipeSection> recipe_sections() {
  return {{"data", "source", ""},    {"augment", "", ""},      {"model", "name", "layers"},
          {"optimizer", "kind", ""}, {"schedule", "kind", ""}, {"train", "", ""},
          {"ema", "decay", ""},      {"checkpoint", "", ""},   {"memory", "", ""}};
}

}  // namespace tr
