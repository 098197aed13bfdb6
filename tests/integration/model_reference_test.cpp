// The zoo's networks against torchvision's: names and shapes of a state_dict, loss, gradients and statistics
// of one training step, logits with running statistics. tests/reference/models/ holds the records.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <span>

#include "renaissance/models.h"
#include "support/reference.h"
#include "support/session.h"
#include "train/state_dict.h"

namespace tr::test {
namespace {

// FP32 against float64, relative to the largest logit, or to a parameter's norm.
constexpr double LOGITS_TOLERANCE = 1e-5, GRADIENT_TOLERANCE = 1e-3;
// Of the largest gradient's norm: a bias before a batch norm has no gradient but for rounding.
constexpr double NEGLIGIBLE = 1e-5;

#ifdef __SANITIZE_ADDRESS__
// Filling and reading weights takes ten times as long: of each family the smallest, and the small networks.
constexpr int64_t MOST_PARAMETERS = 12'000'000;
#else
constexpr int64_t MOST_PARAMETERS = std::numeric_limits<int64_t>::max();
#endif
const std::set<std::string> ALWAYS{"vgg11", "convnext_tiny"};

/// Of a tensor of a state_dict, [n][C][H][W], which lies as [n][H][W][C] here.
struct DoorDims {
  explicit DoorDims(const ParamSpec& spec) : n(1), c(spec.shape.numel()) {
    if (spec.door_shape.size() == 4)
      n = spec.shape.n(), h = spec.shape.h(), w = spec.shape.w(), c = spec.shape.c();
    if (spec.door_shape.size() == 2)
      n = spec.shape.n(), h = spec.flattened_hwc[0], w = spec.flattened_hwc[1], c = spec.flattened_hwc[2];
  }
  /// Where element `d` lies.
  size_t inside(int64_t d) const {
    if (h * w == 1) return static_cast<size_t>(d);
    const int64_t pixels = h * w, row = d / (pixels * c), channel = d / pixels % c, pixel = d % pixels;
    return static_cast<size_t>((row * pixels + pixel) * c + channel);
  }

  int64_t n, h = 1, w = 1, c;
};

/// `scale` times a uniform value, plus `shift`, and `gap` further from zero.
void fill_door_values(const DoorDims& dims, uint32_t stream, double scale, double shift, double gap,
                      std::span<float> values) {
  const int64_t pixels = dims.h * dims.w, row = pixels * dims.c;
#pragma omp parallel for schedule(static)
  for (int64_t n = 0; n < dims.n; ++n)
    for (int64_t c = 0; c < dims.c; ++c)
      for (int64_t pixel = 0; pixel < pixels; ++pixel) {
        const auto d = static_cast<uint64_t>(n * row + c * pixels + pixel);
        const auto value = static_cast<float>(scale * double{fill_value(d, stream)} + shift);
        values[static_cast<size_t>(n * row + pixel * dims.c + c)] =
            gap == 0.0 ? value : static_cast<float>(double{value} + (value < 0.0f ? -gap : gap));
      }
}

/// The norm and weighted sums that a record keeps of a tensor.
struct Projections {
  double norm = 0.0;
  std::vector<double> sums;
};

Projections read_projections(const nlohmann::json& entry, size_t first, size_t streams) {
  Projections p{entry[first], {}};
  for (size_t i = 1; i <= streams; ++i) p.sums.push_back(entry[first + i]);
  return p;
}

template <typename At>
Projections project(int64_t elements, const nlohmann::json& record, At at) {
  const std::vector<uint32_t> streams = record["projection_streams"];
  const int64_t most = record["most_samples"], step = std::max<int64_t>(1, (elements + most - 1) / most);
  Projections p{0.0, std::vector<double>(streams.size())};
  for (int64_t i = 0; i * step < elements; ++i) {
    const double value = at(i * step);
    p.norm += value * value;
    for (size_t s = 0; s < streams.size(); ++s)
      p.sums[s] += value * double{fill_value(static_cast<uint64_t>(i), streams[s])};
  }
  p.norm = std::sqrt(p.norm);
  return p;
}

/// About the norm of the difference: a sum weighted by uniform values is off by it times their deviation.
double distance(const Projections& a, const Projections& b) {
  double squares = 0.0;
  for (size_t s = 0; s < a.sums.size(); ++s)
    squares += 12.0 * (a.sums[s] - b.sums[s]) * (a.sums[s] - b.sums[s]);
  return std::max(std::sqrt(squares / static_cast<double>(a.sums.size())), std::abs(a.norm - b.norm));
}

class ModelReference : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    record_ = load_reference("models/" + GetParam() + ".json");
    int64_t parameters = 0;
    for (const auto& entry : record_["parameters"]) {
      int64_t elements = 1;
      for (const int64_t dim : entry[1]) elements *= dim;
      parameters += elements;
    }
    if (parameters > MOST_PARAMETERS && !ALWAYS.contains(GetParam()))
      GTEST_SKIP() << parameters << " parameters are too many for a quick test under a sanitizer";
    compile_model();
  }

  void compile_model() {
    const int64_t size = record_["size"], classes = record_["classes"];
    ModelOptions options = published_options(GetParam());
    for (std::optional<double>* probability : {&options.dropout, &options.drop_path})
      if (*probability) *probability = 0.0;
    model_ = std::make_shared<const CompiledModel>(
        compile(session_request(make_model(GetParam(), classes, options),
                                Shape(record_["batch"], size, size, 3), classes, Recipe{}),
                std::make_shared<const Catalog>(make_catalog())));
    context_ = make_context(model_);
  }

  /// Where a tensor lies: weights of a large network are not copied about.
  std::span<float> values(TensorId id) {
    return {reinterpret_cast<float*>(context_->arenas().ptr_at(0, tensor(id).offset)),
            static_cast<size_t>(tensor(id).shape.numel())};
  }
  const DTensor& tensor(TensorId id) const { return model_->plan(Variant::TRAIN_BASE).tensor(id); }

  const Parameter& parameter(const std::string& name) const {
    const auto found = std::ranges::find(model_->parameters, name, &Parameter::name);
    TR_CHECK(found != model_->parameters.end(), IndexError, name);
    return *found;
  }
  const Statistics& statistics(const std::string& layer) const {
    const auto found = std::ranges::find(model_->statistics, layer, &Statistics::layer);
    TR_CHECK(found != model_->statistics.end(), IndexError, layer);
    return *found;
  }

  void check_names() const {
    std::set<std::string> ours, theirs;
    const auto line = [](const std::string& name, const std::vector<int64_t>& shape) {
      return cat(name, ' ', nlohmann::json(shape).dump());
    };
    for (const Parameter& p : model_->parameters) ours.insert(line(p.name, p.spec.door_shape));
    for (const Statistics& s : model_->statistics) ours.insert(line(s.layer, {s.channels}));
    for (const auto& entry : record_["parameters"]) theirs.insert(line(entry[0], entry[1]));
    for (const auto& entry : record_["statistics"]) theirs.insert(line(entry[0], {entry[1]}));
    ASSERT_EQ(ours, theirs);
  }

  /// Running statistics start at zero, as the arena does.
  void fill_weights() {
    uint32_t stream = record_["parameter_stream"];
    for (const auto& entry : record_["parameters"]) {
      const Parameter& p = parameter(entry[0]);
      fill_door_values(DoorDims(p.spec), stream++, entry[2], entry[3], entry[4], values(p.tensors.master));
    }
    values(LOSS_SCALE)[0] = 1.0f;
  }

  void feed() {
    const InputSlot slot = context_->input(0, InputBuffer::A);
    const Shape& input = tensor(INPUT_A_DATA).shape;
    fill({reinterpret_cast<float*>(slot.data), static_cast<size_t>(input.numel())}, record_["input_stream"],
         record_["input_scale"]);
    for (int64_t i = 0; i < input.n(); ++i)
      slot.labels[i] = static_cast<int32_t>((37 * i + 11) % record_["classes"].get<int64_t>());
  }

  /// The batch's own become the running statistics.
  void keep_batch_statistics() {
    for (const auto& entry : record_["statistics"]) {
      const BnStats& ids = statistics(entry[0]).tensors;
      for (const auto& [next, prev] :
           {std::pair(ids.next_mean, ids.prev_mean), std::pair(ids.next_var, ids.prev_var)})
        std::ranges::transform(values(next), values(prev).begin(),
                               [&](float value) { return value / entry[2].get<float>(); });
    }
  }

  void check_logits() {
    feed();
    context_->capture(Variant::VAL_BASE, InputBuffer::A)->launch();
    const ValueId output = model_->arch.storage[static_cast<size_t>(model_->arch.output)];
    const std::string name = model_->arch.layers[static_cast<size_t>(output) - 1].name + ".out.inference";
    const auto found = std::ranges::find(model_->tensor_names, name);
    ASSERT_NE(found, model_->tensor_names.end()) << name;
    const std::span<const float> logits = values(static_cast<TensorId>(found - model_->tensor_names.begin()));
    const Recorded want = recorded(record_["logits"]);
    double largest = 0.0, worst = 0.0;
    for (size_t s = 0; s < want.samples.size(); ++s) {
      largest = std::max(largest, std::abs(want.samples[s]));
      worst = std::max(worst, std::abs(double{logits[s * static_cast<size_t>(want.step)]} - want.samples[s]));
    }
    RecordProperty("logits_error", cat(worst / largest));
    EXPECT_TRUE(matches(logits, want, LOGITS_TOLERANCE)) << "relative error " << worst / largest;
  }

  void check_training() {
    feed();
    context_
        ->capture_parts(Variant::TRAIN_BASE, InputBuffer::A,
                        {GraphId::INPUT, GraphId::ZERO_GRAD, GraphId::FORWARD, GraphId::BACKWARD})
        ->launch();
    const double loss = record_["loss"];
    EXPECT_NEAR(values(LOSS)[0], loss, 1e-5 * loss);
    const size_t streams = record_["projection_streams"].size();
    double largest = 0.0, worst = 0.0;
    for (const auto& entry : record_["parameters"]) largest = std::max(largest, entry[5].get<double>());
    for (const auto& entry : record_["parameters"]) {
      const Parameter& p = parameter(entry[0]);
      const std::span<const float> gradient = values(p.tensors.grad);
      const Projections want = read_projections(entry, 5, streams);
      const DoorDims dims(p.spec);
      const Projections got =
          project(std::ssize(gradient), record_, [&](int64_t d) { return double{gradient[dims.inside(d)]}; });
      const double error = distance(got, want);
      EXPECT_LE(error, GRADIENT_TOLERANCE * want.norm + NEGLIGIBLE * largest)
          << entry[0] << " of norm " << want.norm;
      if (want.norm > 1e-3 * largest) worst = std::max(worst, error / want.norm);
    }
    RecordProperty("gradient_error", cat(worst));
    for (const auto& entry : record_["statistics"]) {
      const Statistics& s = statistics(entry[0]);
      size_t at = 3;
      for (const TensorId id : {s.tensors.next_mean, s.tensors.next_var}) {
        const std::span<const float> next = values(id);
        const Projections want = read_projections(entry, at, streams);
        const Projections got = project(std::ssize(next), record_,
                                        [&](int64_t d) { return double{next[static_cast<size_t>(d)]}; });
        EXPECT_LE(distance(got, want), 1e-4 * want.norm) << entry[0];
        at += 1 + streams;
      }
    }
  }

  nlohmann::json record_;
  std::shared_ptr<const CompiledModel> model_;
  std::unique_ptr<Context> context_;
};

TEST_P(ModelReference, IsTorchvisions) {
  check_names();
  fill_weights();
  check_training();
  keep_batch_statistics();
  check_logits();
}

/// All but the networks that torchvision lacks.
std::vector<std::string> torchvision_names() {
  std::vector<std::string> names;
  for (const std::string& name : model_names())
    if (name != "mlp" && name != "cnn" && name != "resnet20") names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Models, ModelReference, testing::ValuesIn(torchvision_names()),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace tr::test
