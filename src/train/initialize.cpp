#include "train/initialize.h"

#include <cmath>
#include <numbers>

#include "renaissance/core/philox.h"

namespace tr {

namespace {

/// FNV-1a: a stream of its own for every parameter, whatever the order of layers.
uint32_t name_stream(std::string_view name) {
  uint32_t hash = 2166136261u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

class Stream {
 public:
  Stream(uint64_t seed, std::string_view name) : philox_(seed), stream_(name_stream(name)) {}

  void uniform(std::vector<float>& values, double bound) const {
    each(values, [&](const Philox::Block& block, size_t lane) {
      return (2.0 * static_cast<double>(Philox::uniform(block[lane])) - 1.0) * bound;
    });
  }

  /// Box–Muller: two uniforms give two normals.
  void normal(std::vector<float>& values, double deviation) const {
    each(values, [&](const Philox::Block& block, size_t lane) {
      const size_t pair = lane & ~size_t{1};
      const double u = 1.0 - static_cast<double>(Philox::uniform(block[pair]));  // in (0, 1]
      const double angle = 2.0 * std::numbers::pi * static_cast<double>(Philox::uniform(block[pair + 1]));
      const double radius = std::sqrt(-2.0 * std::log(u)) * deviation;
      return radius * (lane == pair ? std::cos(angle) : std::sin(angle));
    });
  }

 private:
  template <typename Draw>
  void each(std::vector<float>& values, Draw draw) const {
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(draw(philox_.at(RandomPurpose::INIT, stream_, i / 4), i % 4));
  }

  Philox philox_;
  uint32_t stream_;
};

}  // namespace

std::vector<float> initial_values(const Parameter& parameter, InitScheme scheme, uint64_t seed) {
  const ParamSpec& spec = parameter.spec;
  std::vector<float> values(static_cast<size_t>(spec.shape.numel()), 0.0f);
  if (spec.init == InitKind::ONES) values.assign(values.size(), 1.0f);
  if (spec.init == InitKind::CONSTANT) values.assign(values.size(), static_cast<float>(spec.init_value));
  if (spec.init == InitKind::ONES || spec.init == InitKind::ZEROS || spec.init == InitKind::CONSTANT)
    return values;
  const Stream stream(seed, parameter.name);
  const auto fan_in = static_cast<double>(spec.fan_in), fan_out = static_cast<double>(spec.fan_out);
  if (scheme == InitScheme::PYTORCH) stream.uniform(values, 1.0 / std::sqrt(fan_in));
  if (spec.init == InitKind::BIAS) return values;
  if (scheme == InitScheme::KAIMING) stream.normal(values, std::sqrt(2.0 / fan_out));
  if (scheme == InitScheme::XAVIER) stream.uniform(values, std::sqrt(6.0 / (fan_in + fan_out)));
  return values;
}

void initialize(Context& context, const Recipe& recipe) {
  const CompiledModel& model = context.model();
  const MemoryPlan& plan = model.plan(Variant::TRAIN_BASE);
  const auto put = [&](TensorId id, const void* data, int64_t bytes) {
    for (int rank = 0; rank < context.arenas().ranks(); ++rank)
      context.write(rank, plan.tensor(id).offset, data, bytes);
  };
  const auto put_all = [&](TensorId id, const std::vector<float>& values) {
    put(id, values.data(), static_cast<int64_t>(values.size() * sizeof(float)));
  };
  const auto put_number = [&](BaselineId id, double value) {
    const auto number = static_cast<float>(value);
    put(id, &number, sizeof number);
  };

  for (const Parameter& parameter : model.parameters) {
    const std::vector<float> values = initial_values(parameter, recipe.train.init, recipe.train.seed);
    for (const TensorId id : {parameter.tensors.master, parameter.tensors.ema})
      if (id != NO_TENSOR) put_all(id, values);
  }
  for (const Statistics& statistics : model.statistics) {
    const std::vector<float> ones(static_cast<size_t>(statistics.channels), 1.0f);
    put_all(statistics.tensors.prev_var, ones);
    put_all(statistics.tensors.next_var, ones);
  }

  put_number(LEARNING_RATE, model.request.schedule.at(0));
  put_number(LOSS_SCALE, recipe.precision == Precision::FP16 ? recipe.train.loss_scale : 1.0);
  put_number(LABEL_SMOOTHING, recipe.train.label_smoothing);
  const auto batch = [&](Variant variant) {
    return static_cast<double>(model.plan(variant).tensor(LABEL).shape.n());
  };
  put_number(BATCH_SIZE, batch(Variant::TRAIN_BASE));
  put_number(BATCH_SIZE_LAST_TRAIN, batch(Variant::TRAIN_LAST));
  put_number(BATCH_SIZE_LAST_VAL, batch(Variant::VAL_LAST));
  put_number(MOMENTUM, recipe.optimizer.momentum);
  put_number(WEIGHT_DECAY, recipe.optimizer.weight_decay);
  put_number(BETA1, recipe.optimizer.beta1);
  put_number(BETA2, recipe.optimizer.beta2);
  put_number(EPSILON, recipe.optimizer.epsilon);
  put_number(TRUST_COEFFICIENT, recipe.optimizer.trust_coefficient);
  put_number(BIAS_CORRECTION1, 1.0 - recipe.optimizer.beta1);
  put_number(BIAS_CORRECTION2, 1.0 - recipe.optimizer.beta2);
  // Ranks see other samples, so they drop other elements.
  const Philox philox(recipe.train.seed);
  for (int rank = 0; rank < context.arenas().ranks(); ++rank) {
    const uint32_t seed = philox.at(RandomPurpose::DROPOUT, 0, static_cast<uint64_t>(rank))[0];
    context.write(rank, plan.tensor(DROPOUT_SEED).offset, &seed, sizeof seed);
  }
}

}  // namespace tr
