#include "renaissance/train/trainer.h"

#include <chrono>
#include <optional>

#include "data/batch_loader.h"
#include "train/data_source.h"
#include "train/fitting_context.h"
#include "train/initialize.h"
#include "train/state_dict.h"

namespace tr {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// What one pass over a dataset needs to know.
struct PassPlan {
  Variant base = Variant::TRAIN_BASE, last = Variant::TRAIN_LAST;
  int64_t batch = 0, steps = 0, last_batch = 0;
  int64_t samples = 0;
  Transform transform;

  int64_t all_steps() const { return steps + (last_batch > 0 ? 1 : 0); }
  bool is_last(int64_t step) const { return step == steps; }
  Variant variant(int64_t step) const { return is_last(step) ? last : base; }
};

InputBuffer buffer_of(int64_t step) { return step % 2 == 0 ? InputBuffer::A : InputBuffer::B; }

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
        data_(load_data(recipe, info_)),
        requests_(static_cast<size_t>(recipe.ranks)),
        train_loader_(data_.train, true, recipe.train.seed, recipe.data.workers,
                      static_cast<size_t>(recipe.ranks)),
        val_loader_(data_.val, false, recipe.train.seed, recipe.data.workers,
                    static_cast<size_t>(recipe.ranks)) {
    for (const Capture& capture : model_->atlas.captures())
      captured_.push_back(context_->capture(capture.variant, capture.buffer));
    train_ = pass_plan(Variant::TRAIN_BASE, Variant::TRAIN_LAST);
    lowres_ = pass_plan(Variant::TRAIN_LOWRES, Variant::TRAIN_LOWRES_LAST);
    val_ = pass_plan(Variant::VAL_BASE, Variant::VAL_LAST);
    initialize(*context_, recipe_);
    if (is_amp(recipe.precision))
      context_->capture_parts(Variant::TRAIN_BASE, InputBuffer::A, {GraphId::WEIGHT_CAST})->launch();
  }

  TrainResult run(Observer& observer) {
    TrainResult result;
    const Clock::time_point start = Clock::now();
    double training_seconds = 0.0;
    int64_t trained_images = 0;
    for (int64_t epoch = 1; epoch <= recipe_.train.epochs && !result.interrupted; ++epoch) {
      const Clock::time_point epoch_start = Clock::now();
      EpochReport report;
      report.epoch = epoch;
      const bool trained = train_epoch(epoch, start, observer, report);
      training_seconds += report.seconds;
      trained_images += report.train.samples;
      const std::optional<Metrics> val = trained ? evaluate(observer) : std::nullopt;
      report.seconds = seconds_since(epoch_start);
      report.interrupted = result.interrupted = !val.has_value();
      if (val.has_value()) {
        report.val = result.val = *val;
        result.epochs = epoch;
      }
      observer.on_epoch(report);
    }
    if (recipe_.train.epochs == 0) {
      const std::optional<Metrics> val = evaluate(observer);
      result.interrupted = !val.has_value();
      if (val.has_value()) result.val = *val;
    }
    result.seconds = seconds_since(start);
    result.images_per_s =
        training_seconds > 0.0 ? static_cast<double>(trained_images) / training_seconds : 0.0;
    return result;
  }

  /// Nothing when the observer stopped it before its end.
  std::optional<Metrics> evaluate(Observer& observer) {
    val_loader_.start_epoch(0);
    clear_sums();
    const bool finished = run_pass(val_loader_, val_, [&](int64_t) { return !observer.should_stop(); });
    if (!finished) return std::nullopt;
    return read_sums(info_.val_samples);
  }

  const Recipe recipe_;
  const DataInfo info_;
  const StepPlan steps_;
  const std::shared_ptr<const CompiledModel> model_;
  const std::unique_ptr<Context> context_;
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
      pass.transform.crop_padding = recipe_.augment.crop_padding;
      pass.transform.horizontal_flip = recipe_.augment.horizontal_flip;
    }
    return pass;
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
      requests_[static_cast<size_t>(rank)] = {
          {slot.data, slot.labels, slot.raw_bytes}, begin, count, capacity};
    }
    loader.submit(requests_, pass.transform);
  }

  /// Runs a pass; the next batch is loaded while a step computes. `after_step(done)` returning false ends it.
  /// false when it ended before all steps were done.
  template <typename AfterStep>
  bool run_pass(BatchLoader& loader, const PassPlan& pass, AfterStep after_step) {
    // However the pass ends, nobody fills a buffer after it.
    struct WaitForLoader {
      BatchLoader& loader;
      ~WaitForLoader() { loader.wait(); }
    } wait_for_loader{loader};
    const int64_t all_steps = pass.all_steps();
    // Where steps load ahead, a batch must be there when the step before it starts.
    const int64_t ahead = context_->loads_ahead() ? 1 : 0;
    prefetch(loader, pass, 0);
    if (ahead > 0) {
      loader.wait();
      context_->load_input(pass.variant(0), buffer_of(0));
      if (all_steps > 1) prefetch(loader, pass, 1);
    }
    for (int64_t step = 0; step < all_steps; ++step) {
      loader.wait();
      const auto prefetch_next = [&] {
        if (step + 1 + ahead < all_steps) prefetch(loader, pass, step + 1 + ahead);
      };
      const auto launch = [&] {
        const int captured = model_->atlas.find(pass.variant(step), buffer_of(step));
        captured_[static_cast<size_t>(captured)]->launch();
      };
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
  bool train_epoch(int64_t epoch, Clock::time_point start, Observer& observer, EpochReport& report) {
    const PassPlan& pass = epoch <= recipe_.train.low_resolution_epochs ? lowres_ : train_;
    const int64_t all_steps = pass.all_steps();
    const Clock::time_point epoch_start = Clock::now();
    train_loader_.start_epoch(epoch);
    clear_sums();
    const auto images_after = [&](int64_t steps) {
      return (std::min(steps, pass.steps) * pass.batch + (steps > pass.steps ? pass.last_batch : 0)) *
             recipe_.ranks;
    };
    int64_t done_steps = 0;
    const bool finished = run_pass(train_loader_, pass, [&](int64_t done) {
      done_steps = done;
      if (done % recipe_.train.log_interval == 0 || done == all_steps) {
        const double spent = seconds_since(epoch_start);
        const auto share = static_cast<double>((epoch - 1) * all_steps + done) /
                           static_cast<double>(recipe_.train.epochs * all_steps);
        observer.on_progress({epoch, recipe_.train.epochs, done, all_steps, read_sums(images_after(done)),
                              static_cast<double>(images_after(done)) / spent,
                              seconds_since(start) * (1.0 - share) / share});
        stop_when_skipping(epoch, done);
      }
      return !observer.should_stop();
    });
    report.train = read_sums(images_after(done_steps));
    report.seconds = seconds_since(epoch_start);
    report.images_per_s = static_cast<double>(report.train.samples) / report.seconds;
    report.steps = counter(STEP) + counter(SKIPPED_STEPS);
    report.skipped_steps = counter(SKIPPED_STEPS);
    report.learning_rate = static_cast<double>(scalar(LEARNING_RATE));
    return finished;
  }

  void stop_when_skipping(int64_t epoch, int64_t step) {
    const int32_t skipped = counter(SKIPPED_STEPS);
    TR_CHECK(skipped <= recipe_.train.max_skipped_steps, StateError,
             cat("epoch ", epoch, " step ", step, ": ", skipped,
                 " steps had gradients that are not finite and changed nothing; lower "
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
      for (const BaselineId id : {LOSS_SUM, TOP1_SUM, TOP5_SUM})
        context_->write(rank, offset(id), &zero, sizeof zero);
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

  std::vector<BatchRequest> requests_;
  std::vector<std::unique_ptr<CapturedStep>> captured_;
  PassPlan train_, lowres_, val_;
  BatchLoader train_loader_, val_loader_;  // last: their threads read what is above
};

Trainer::Trainer(const Recipe& recipe) : impl_(std::make_unique<Impl>(recipe)) {}
Trainer::~Trainer() = default;

TrainResult Trainer::run(Observer& observer) { return impl_->run(observer); }
Metrics Trainer::evaluate() {
  Observer never_stops;
  return *impl_->evaluate(never_stops);
}
StateDict Trainer::state_dict() const { return read_state_dict(*impl_->context_); }
void Trainer::load_state_dict(const StateDict& state) { write_state_dict(*impl_->context_, state); }
const CompiledModel& Trainer::model() const { return *impl_->model_; }
const Recipe& Trainer::recipe() const { return impl_->recipe_; }
Context& Trainer::context() { return *impl_->context_; }

}  // namespace tr
