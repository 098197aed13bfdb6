#include "renaissance/train/trainer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <optional>

#include "data/batch_loader.h"
#include "train/batch_target.h"
#include "train/data_source.h"
#include "train/fitting_context.h"
#include "train/init_weights.h"
#include "train/initialize.h"
#include "train/resume.h"
#include "train/state_dict.h"
#include "train/step_captures.h"
#include "train/training_state.h"

namespace tr {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Clock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

/// What one pass over a dataset needs to know.
struct PassPlan {
  Variant base = Variant::TRAIN_BASE, last = Variant::TRAIN_LAST;
  int64_t batch = 0, steps = 0, last_batch = 0;
  int64_t samples = 0;
  Transform transform;
  int64_t accumulate = 1;  ///< training steps that make one update
  bool averaged = false;   ///< evaluation of the averaged weights

  int64_t all_steps() const { return steps + (last_batch > 0 ? 1 : 0); }
  bool is_last(int64_t step) const { return step == steps; }
  Variant variant(int64_t step) const { return is_last(step) ? last : base; }
  StepKind kind(int64_t step) const {
    if (averaged) return StepKind::AVERAGED;
    const bool updates = (step + 1) % accumulate == 0 || step + 1 == all_steps();
    return updates ? StepKind::WHOLE : StepKind::MICRO_BATCH;
  }
};

InputBuffer buffer_of(int64_t step) { return step % 2 == 0 ? InputBuffer::A : InputBuffer::B; }

Erasing erasing_of(const AugmentRecipe& augment) {
  return {augment.random_erasing,      augment.erasing_area.at(0),  augment.erasing_area.at(1),
          augment.erasing_ratio.at(0), augment.erasing_ratio.at(1), augment.erasing_value};
}

MixSettings mix_of(const AugmentRecipe& augment) {
  return {augment.mixup, augment.cutmix, augment.mix_switch, augment.mix_probability};
}

constexpr std::array SUMS{LOSS_SUM, TOP1_SUM, TOP5_SUM};
/// What an epoch's training has summed up so far on one rank.
using EpochSums = std::array<float, SUMS.size()>;

}  // namespace

class Trainer::Impl {
 public:
  explicit Impl(const Recipe& recipe)
      : recipe_(recipe),
        info_(data_info(recipe, true)),
        steps_(plan_steps(recipe, info_)),
        model_(std::make_shared<const CompiledModel>(
            compile(compile_request(recipe, info_, false), std::make_shared<const Catalog>(make_catalog())))),
        context_(make_fitting_context(model_, recipe, info_)),
        captures_(*context_),
        data_(load_data(recipe, info_)),
        sums_(static_cast<size_t>(recipe.ranks)),
        requests_(static_cast<size_t>(recipe.ranks)),
        train_loader_(data_.train, true, recipe.train.seed, recipe.data.workers,
                      static_cast<size_t>(recipe.ranks), narrowed_elements()),
        val_loader_(data_.val, false, recipe.train.seed, recipe.data.workers,
                    static_cast<size_t>(recipe.ranks), narrowed_elements()) {
    train_ = pass_plan(Variant::TRAIN_BASE, Variant::TRAIN_LAST);
    lowres_ = pass_plan(Variant::TRAIN_LOWRES, Variant::TRAIN_LOWRES_LAST);
    val_ = averaged_val_ = pass_plan(Variant::VAL_BASE, Variant::VAL_LAST);
    averaged_val_.averaged = true;
    initialize(*context_, recipe_);
    load_init_weights(*context_, recipe_);
    refresh_copies(*context_);
  }

  TrainResult run(Observer& observer) {
    TrainResult result;
    result.val = progress_.val;
    result.val_ema = progress_.val_ema;
    result.epochs = progress_.epochs;
    start_ = Clock::now();
    share_before_ = share_done();
    clean_before_ = counter(STEP);
    skipped_before_ = counter(SKIPPED_STEPS);
    double training_seconds = 0.0;
    int64_t trained_images = 0;
    for (int64_t epoch = progress_.epochs + 1; epoch <= recipe_.train.epochs && !result.interrupted;
         ++epoch) {
      // As if the epoch's first steps had been taken just before.
      const Clock::time_point epoch_start = Clock::now() - duration_of(progress_.epoch_seconds);
      EpochReport report;
      report.epoch = epoch;
      const bool trained = train_epoch(epoch, epoch_start, observer, report);
      training_seconds += report.seconds;
      trained_images += report.train.samples;
      if (trained) switch_weights(epoch);
      const std::optional<Metrics> val = trained ? validate(observer, report.val_ema) : std::nullopt;
      report.seconds = seconds_since(epoch_start);
      report.interrupted = result.interrupted = !val.has_value();
      if (val.has_value()) {
        report.val = result.val = *val;
        result.val_ema = report.val_ema;
        result.epochs = epoch;
      }
      const bool is_best = val.has_value() && finish_epoch(epoch, *val, report.val_ema);
      observer.on_epoch(report);
      if (val.has_value()) stop_when_not_finite(epoch, *val);
      keep_epoch_checkpoint(report.interrupted, is_best);
    }
    if (recipe_.train.epochs == 0) {
      const std::optional<Metrics> val = validate(observer, result.val_ema);
      result.interrupted = !val.has_value();
      if (val.has_value()) result.val = *val;
    }
    result.seconds = seconds_since(start_);
    result.images_per_s =
        training_seconds > 0.0 ? static_cast<double>(trained_images) / training_seconds : 0.0;
    return result;
  }

  /// Nothing when the observer stopped it before its end.
  std::optional<Metrics> evaluate(Observer& observer, bool averaged) {
    val_loader_.start_epoch(0);
    clear_sums();
    captures_.prepare_evaluation(averaged);
    const bool finished = run_pass(val_loader_, averaged ? averaged_val_ : val_, 0,
                                   [&](int64_t) { return !observer.should_stop(); });
    if (!finished) return std::nullopt;
    return read_sums(info_.val_samples);
  }

  StateDict checkpoint() {
    StateDict state = read_training_state(*context_);
    StateTensor sums{"F32", {std::ssize(sums_), std::ssize(SUMS)}, {}};
    sums.data.resize(sums_.size() * sizeof(EpochSums));
    std::memcpy(sums.data.data(), sums_.data(), sums.data.size());
    state.tensors.emplace_back(EPOCH_SUMS, std::move(sums));
    describe_checkpoint(state, checkpoint_info_now());
    return state;
  }

  void resume(const StateDict& checkpoint, const std::string& source) {
    const CheckpointInfo info = checkpoint_info(checkpoint, source);
    check_can_resume(info, recipe_, info_, source);
    TR_CHECK(info.progress.epoch_steps <= train_.all_steps(), DataError,
             cat(source, ": ", info.progress.epoch_steps, " steps of an epoch are done, which has ",
                 train_.all_steps()));
    const StateTensor* sums = checkpoint.find(EPOCH_SUMS);
    TR_CHECK(sums != nullptr && sums->data.size() == sums_.size() * sizeof(EpochSums), DataError,
             cat(source, ": ", EPOCH_SUMS, " is missing or of another size"));
    write_training_state(*context_, checkpoint, source);
    std::memcpy(sums_.data(), sums->data.data(), sums->data.size());
    progress_ = info.progress;
  }

  void keep_checkpoints(const CheckpointFolder& folder) { folder_ = folder; }
  const TrainingProgress& progress() const { return progress_; }

  const Recipe recipe_;
  const DataInfo info_;
  const StepPlan steps_;
  const std::shared_ptr<const CompiledModel> model_;
  const std::unique_ptr<Context> context_;
  StepCaptures captures_;
  const LoadedData data_;

 private:
  PassPlan pass_plan(Variant base, Variant last) const {
    PassPlan pass;
    const bool training = is_training(base);
    pass.base = base;
    pass.last = last;
    pass.batch = training ? steps_.batch : steps_.val_batch;
    pass.steps = training ? steps_.steps : steps_.val_steps;
    pass.last_batch = training ? steps_.last_batch : steps_.val_last_batch;
    pass.samples = training ? info_.train_samples : info_.val_samples;
    const Shape& input = model_->request.inputs[static_cast<size_t>(base)];
    pass.transform.height = input.h();
    pass.transform.width = input.w();
    pass.transform.mean = model_->request.pixel_mean;
    pass.transform.std = model_->request.pixel_std;
    if (training) {
      pass.accumulate = recipe_.train.accumulate;
      pass.transform.crop_padding = recipe_.augment.crop_padding;
      pass.transform.horizontal_flip = recipe_.augment.horizontal_flip;
      pass.transform.erasing = erasing_of(recipe_.augment);
      pass.transform.mix = mix_of(recipe_.augment);
    }
    return pass;
  }

  /// Of the largest sample that the loaders round to 16 bits.
  int64_t narrowed_elements() const {
    if (recipe_.device != BackendKind::CPU || !is_amp(recipe_.precision)) return 0;
    int64_t most = 0;
    for (const Shape& input : model_->request.inputs) most = std::max(most, input.numel() / input.n());
    return most;
  }

  /// Starts filling the buffers of `step` on every rank.
  void prefetch(BatchLoader& loader, const PassPlan& pass, int64_t step) {
    context_->wait_input(buffer_of(step));
    const bool last = pass.is_last(step);
    const int64_t capacity = last ? pass.last_batch : pass.batch;
    const int64_t first = step * pass.batch * recipe_.ranks;
    for (int rank = 0; rank < recipe_.ranks; ++rank) {
      const InputSlot slot = context_->input(rank, buffer_of(step));
      const int64_t begin = std::min(first + rank * capacity, pass.samples);
      const int64_t count = std::clamp<int64_t>(pass.samples - begin, 0, capacity);
      requests_[static_cast<size_t>(rank)] = {target_of(slot), begin, count, capacity};
    }
    loader.submit(requests_, pass.transform);
  }

  /// Runs a pass from step `first`; the next batch is loaded while a step computes. `after_step(done)`
  /// returning false ends it. false when it ended before all steps were done.
  template <typename AfterStep>
  bool run_pass(BatchLoader& loader, const PassPlan& pass, int64_t first, AfterStep after_step) {
    const int64_t all_steps = pass.all_steps();
    if (first >= all_steps) return true;
    // However the pass ends, nobody fills a buffer after it.
    struct WaitForLoader {
      BatchLoader& loader;
      ~WaitForLoader() { loader.wait(); }
    } wait_for_loader{loader};
    // Where steps load ahead, a batch must be there when the step before it starts.
    const int64_t ahead = context_->loads_ahead() ? 1 : 0;
    prefetch(loader, pass, first);
    if (ahead > 0) {
      loader.wait();
      context_->load_input(pass.variant(first), buffer_of(first));
      if (first + 1 < all_steps) prefetch(loader, pass, first + 1);
    }
    for (int64_t step = first; step < all_steps; ++step) {
      loader.wait();
      const auto prefetch_next = [&] {
        if (step + 1 + ahead < all_steps) prefetch(loader, pass, step + 1 + ahead);
      };
      const auto launch = [&] { captures_.launch(pass.variant(step), buffer_of(step), pass.kind(step)); };
      // A launch on the CPU computes, so the loader starts first; on a device it returns at once, and the
      // buffer to fill next is the one that the step before it has just copied.
      if (ahead == 0) prefetch_next();
      launch();
      if (ahead > 0) prefetch_next();
      if (!after_step(step + 1) && step + 1 < all_steps) return false;
    }
    context_->synchronize();
    return true;
  }

  /// false when the observer stopped it before its end.
  bool train_epoch(int64_t epoch, Clock::time_point epoch_start, Observer& observer, EpochReport& report) {
    const PassPlan& pass = epoch <= recipe_.train.low_resolution_epochs ? lowres_ : train_;
    const int64_t all_steps = pass.all_steps();
    train_loader_.start_epoch(epoch);
    restore_sums();
    const auto images_after = [&](int64_t steps) {
      return (std::min(steps, pass.steps) * pass.batch + (steps > pass.steps ? pass.last_batch : 0)) *
             recipe_.ranks;
    };
    int64_t& done_steps = progress_.epoch_steps;
    const bool finished = run_pass(train_loader_, pass, done_steps, [&](int64_t done) {
      done_steps = done;
      keep_step_checkpoint((epoch - 1) * all_steps + done, epoch_start);
      if (done % recipe_.train.log_interval == 0 || done == all_steps) {
        const double spent = seconds_since(epoch_start);
        const double share = share_done();
        observer.on_progress({epoch, recipe_.train.epochs, done, all_steps, read_sums(images_after(done)),
                              static_cast<double>(images_after(done)) / spent,
                              seconds_since(start_) * (1.0 - share) / (share - share_before_)});
        stop_when_skipping(epoch, done);
      }
      return !observer.should_stop();
    });
    keep_sums();
    report.train = read_sums(images_after(done_steps));
    report.seconds = progress_.epoch_seconds = seconds_since(epoch_start);
    report.images_per_s = static_cast<double>(report.train.samples) / report.seconds;
    report.steps = counter(STEP) + counter(SKIPPED_STEPS);
    report.batches = (epoch - 1) * all_steps + done_steps;
    report.skipped_steps = counter(SKIPPED_STEPS);
    report.learning_rate = static_cast<double>(scalar(LEARNING_RATE));
    return finished;
  }

  /// Of the trained weights, and of the averaged ones where there are any; nothing when the observer stopped
  /// either before its end.
  std::optional<Metrics> validate(Observer& observer, std::optional<Metrics>& averaged) {
    const std::optional<Metrics> val = evaluate(observer, false);
    if (!val || !has_ema()) return val;
    averaged = evaluate(observer, true);
    return averaged ? val : std::nullopt;
  }

  bool has_ema() const { return model_->request.config.has_ema; }

  /// Where `ema.switch_epochs` says so, training goes on from the averaged weights. Before validation, so
  /// that what it reports is of the weights that are kept.
  void switch_weights(int64_t epoch) {
    const int64_t every = recipe_.ema.switch_epochs;
    if (every > 0 && epoch % every == 0) captures_.switch_to_averages();
  }

  /// Of all epochs' steps.
  double share_done() const {
    const int64_t steps = train_.all_steps();
    return static_cast<double>(progress_.epochs * steps + progress_.epoch_steps) /
           static_cast<double>(std::max<int64_t>(recipe_.train.epochs * steps, 1));
  }

  /// Whether its validation is the best so far.
  bool finish_epoch(int64_t epoch, const Metrics& val, const std::optional<Metrics>& val_ema) {
    const bool is_best = progress_.best_epoch == 0 || val.top1 > progress_.best_top1;
    progress_.epochs = epoch;
    progress_.epoch_steps = 0;
    progress_.epoch_seconds = 0.0;
    progress_.val = val;
    progress_.val_ema = val_ema;
    std::fill(sums_.begin(), sums_.end(), EpochSums{});
    if (!is_best) return false;
    progress_.best_top1 = val.top1;
    progress_.best_epoch = epoch;
    return true;
  }

  CheckpointInfo checkpoint_info_now() {
    CheckpointInfo info;
    info.progress = progress_;
    info.steps = counter(STEP) + counter(SKIPPED_STEPS);
    info.skipped_steps = counter(SKIPPED_STEPS);
    info.ranks = recipe_.ranks;
    info.train_samples = info_.train_samples;
    info.val_samples = info_.val_samples;
    info.channels = info_.channels;
    info.height = info_.height;
    info.width = info_.width;
    info.classes = info_.classes;
    info.recipe = recipe_to_yaml(recipe_);
    return info;
  }

  void keep_step_checkpoint(int64_t steps, Clock::time_point epoch_start) {
    const int64_t every = recipe_.checkpoint.every_steps;
    if (!folder_ || every == 0 || steps % every != 0) return;
    keep_sums();
    progress_.epoch_seconds = seconds_since(epoch_start);
    folder_->add(checkpoint(), progress_, recipe_.checkpoint.keep_last, false);
  }

  /// After an epoch, or after a stop in the middle of it.
  void keep_epoch_checkpoint(bool interrupted, bool is_best) {
    const CheckpointRecipe& wanted = recipe_.checkpoint;
    if (!folder_) return;
    if (interrupted) return folder_->add(checkpoint(), progress_, wanted.keep_last, false);
    if (wanted.every_epochs == 0 && wanted.every_steps == 0) return;
    const bool due = progress_.epochs == recipe_.train.epochs ||
                     (wanted.every_epochs > 0 && progress_.epochs % wanted.every_epochs == 0);
    const bool best = is_best && wanted.keep_best;
    if (due)
      folder_->add(checkpoint(), progress_, wanted.keep_last, best);
    else if (best)
      folder_->write_best(checkpoint());
  }

  /// Before such weights push good ones out of the checkpoints.
  void stop_when_not_finite(int64_t epoch, const Metrics& val) {
    TR_CHECK(!std::isnan(val.loss), StateError,
             cat("epoch ", epoch,
                 ": the validation loss is not a number, so the weights are of no use any more (learning "
                 "rate ",
                 scalar(LEARNING_RATE),
                 "); its checkpoint is not written. Lower optimizer.learning_rate or add "
                 "warm-up, and go on from an older checkpoint or begin anew"));
  }

  /// A loss scale that grows until it overflows skips a step now and then for ever: only skips in a row
  /// count.
  void stop_when_skipping(int64_t epoch, int64_t step) {
    const int32_t clean = counter(STEP), skipped = counter(SKIPPED_STEPS);
    if (clean != clean_before_) {
      clean_before_ = clean;
      skipped_before_ = skipped;
    }
    TR_CHECK(skipped - skipped_before_ <= recipe_.train.max_skipped_steps, StateError,
             cat("epoch ", epoch, " step ", step, ": ", skipped - skipped_before_,
                 " steps in a row had gradients that are not finite and changed nothing; lower "
                 "optimizer.learning_rate, add warm-up, or "
                 "raise train.max_skipped_steps"));
  }

  int64_t offset(BaselineId id) const { return model_->plan(Variant::TRAIN_BASE).tensor(id).offset; }
  float scalar(BaselineId id, int rank = 0) {
    float value = 0.0f;
    context_->read(rank, offset(id), &value, sizeof value);
    return value;
  }
  int32_t counter(BaselineId id) {
    int32_t value = 0;
    context_->read(0, offset(id), &value, sizeof value);
    return value;
  }

  void clear_sums() {
    const float zero = 0.0f;
    for (int rank = 0; rank < recipe_.ranks; ++rank)
      for (const BaselineId id : SUMS) context_->write(rank, offset(id), &zero, sizeof zero);
  }
  /// Validation uses the same tensors, so what an epoch's training has summed up is kept here.
  void keep_sums() {
    for (int rank = 0; rank < recipe_.ranks; ++rank)
      for (size_t i = 0; i < SUMS.size(); ++i) sums_[static_cast<size_t>(rank)][i] = scalar(SUMS[i], rank);
  }
  void restore_sums() {
    for (int rank = 0; rank < recipe_.ranks; ++rank)
      for (size_t i = 0; i < SUMS.size(); ++i)
        context_->write(rank, offset(SUMS[i]), &sums_[static_cast<size_t>(rank)][i], sizeof(float));
  }

  Metrics read_sums(int64_t samples) {
    Metrics metrics;
    for (int rank = 0; rank < recipe_.ranks; ++rank) {
      metrics.loss += static_cast<double>(scalar(LOSS_SUM, rank));
      metrics.top1 += static_cast<double>(scalar(TOP1_SUM, rank));
      metrics.top5 += static_cast<double>(scalar(TOP5_SUM, rank));
    }
    const auto count = static_cast<double>(std::max<int64_t>(samples, 1));
    metrics.loss /= count;
    metrics.top1 /= count;
    metrics.top5 /= count;
    metrics.samples = samples;
    return metrics;
  }

  TrainingProgress progress_;
  std::vector<EpochSums> sums_;  ///< by rank
  std::optional<CheckpointFolder> folder_;
  Clock::time_point start_;    ///< of run()
  double share_before_ = 0.0;  ///< share_done() then
  /// The steps taken when they last rose, and the skipped ones then.
  int32_t clean_before_ = 0, skipped_before_ = 0;
  std::vector<BatchRequest> requests_;
  PassPlan train_, lowres_, val_, averaged_val_;
  BatchLoader train_loader_, val_loader_;  // last: their threads read what is above
};

Trainer::Trainer(const Recipe& recipe) : impl_(std::make_unique<Impl>(recipe)) {}
Trainer::~Trainer() = default;

TrainResult Trainer::run(Observer& observer) { return impl_->run(observer); }
Metrics Trainer::evaluate() {
  Observer never_stops;
  return *impl_->evaluate(never_stops, false);
}
Metrics Trainer::evaluate_averaged() {
  TR_CHECK(model().request.config.has_ema, StateError,
           "this training averages no weights; set ema.decay in its recipe");
  Observer never_stops;
  return *impl_->evaluate(never_stops, true);
}
StateDict Trainer::state_dict() const { return read_state_dict(*impl_->context_); }
StateDict Trainer::ema_state_dict() const { return read_averaged_state_dict(*impl_->context_); }
void Trainer::load_state_dict(const StateDict& state) { write_state_dict(*impl_->context_, state); }
const TrainingProgress& Trainer::progress() const { return impl_->progress(); }
StateDict Trainer::checkpoint() { return impl_->checkpoint(); }
void Trainer::keep_checkpoints(const CheckpointFolder& folder) { impl_->keep_checkpoints(folder); }
void Trainer::resume(const StateDict& checkpoint, const std::string& source) {
  impl_->resume(checkpoint, source);
}
const CompiledModel& Trainer::model() const { return *impl_->model_; }
const Recipe& Trainer::recipe() const { return impl_->recipe_; }
Context& Trainer::context() { return *impl_->context_; }

}  // namespace tr
