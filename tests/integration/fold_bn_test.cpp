// Batch norm folded: into the layer before it (fold_batch_norms), and into a scale and a bias for evaluation
// (bn_folded).
#include "renaissance/train/fold_bn.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "support/expect_error.h"
#include "support/op_rig.h"
#include "support/session.h"
#include "train/state_dict.h"

namespace tr {
namespace {

using test::fill;
using test::Session;

constexpr int64_t CLASSES = 3;
const Shape INPUT(3, 8, 8, 3);

/// Every case: a convolution without and with a bias, in groups, a fully connected layer, and batch norms
/// that must stay: behind an activation, and where another layer reads the convolution too.
BluePrint net(bool with_bn) {
  const auto norm = [&](const std::string& name, double epsilon) {
    return named(name, with_bn ? bn(0.1, epsilon) : identity());
  };
  return seq(named("conv1", conv(6, 3, 1, 1, {.bias = !with_bn})), norm("bn1", 1e-3), relu(),
             named("conv2", conv(8, 3, 2, 1, {.bias = true, .groups = 2})), norm("bn2", 1e-5), relu(),
             named("bn3", bn()), named("conv3", conv(8, 1)), named("block", residual(named("bn4", bn()))),
             flatten(), named("fc1", fc(7, !with_bn)), norm("bn5", 1e-5), named("fc2", fc(CLASSES)));
}

Session session_of(BluePrint layers, Recipe recipe = {}) {
  return Session(std::move(layers), INPUT, CLASSES, recipe);
}

/// Parameters and running statistics that a training may have reached.
void fill_state(Session& session) {
  uint32_t stream = 700;
  for (const Parameter& parameter : session.model().parameters) {
    std::vector<float> values(static_cast<size_t>(parameter.spec.shape.numel()));
    fill(values, stream++, 1.0, parameter.spec.init == InitKind::ONES ? 0.7 : 0.0);
    session.write(parameter.tensors.master, values);
  }
  for (const Statistics& statistics : session.model().statistics) {
    std::vector<float> values(static_cast<size_t>(statistics.channels));
    fill(values, stream++);
    session.write(statistics.tensors.prev_mean, values);
    fill(values, stream++, 1.0, 0.8);
    session.write(statistics.tensors.prev_var, values);
  }
}

std::vector<float> logits(Session& session) {
  std::vector<float> pixels(static_cast<size_t>(INPUT.numel()));
  fill(pixels, 9, 4.0);
  const InputSlot slot = session.context().input(0, InputBuffer::A);
  put_pixels(slot, pixels, INPUT.c());
  std::fill(slot.labels, slot.labels + INPUT.n(), 1);
  if (!session.model().graph.part(GraphId::EVAL_SETUP).empty())
    session.context().capture_parts(Variant::VAL_BASE, InputBuffer::A, {GraphId::EVAL_SETUP})->launch();
  session.context().capture(Variant::VAL_BASE, InputBuffer::A)->launch();
  return session.read(session.id("fc2.out.inference"));
}

void expect_near(const std::vector<float>& got, const std::vector<float>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  float largest = 0.0f;
  for (const float value : want) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], tolerance * double{largest}) << i;
}

TEST(FoldBatchNorms, LogitsStayTheSame) {
  Session whole = session_of(net(true));
  fill_state(whole);
  std::vector<std::string> pairs;
  for (const FoldableBatchNorm& pair : foldable_batch_norms(whole.model()))
    pairs.push_back(pair.layer + " " + pair.bn);
  EXPECT_EQ(pairs, (std::vector<std::string>{"conv1 bn1", "conv2 bn2", "fc1 bn5"}));

  const StateDict folded = fold_batch_norms(whole.model(), read_state_dict(whole.context()));
  for (const char* gone : {"bn1.weight", "bn2.bias", "bn5.running_var", "bn1.num_batches_tracked"})
    EXPECT_EQ(folded.find(gone), nullptr) << gone;
  for (const char* kept :
       {"bn3.running_mean", "block.bn4.weight", "block.bn4.num_batches_tracked", "conv3.bias"})
    EXPECT_NE(folded.find(kept), nullptr) << kept;
  EXPECT_EQ(folded.find("conv1.bias")->shape, (std::vector<int64_t>{6}));

  Session merged = session_of(net(false));
  write_state_dict(merged.context(), folded);  // strict
  expect_near(logits(merged), logits(whole), 1e-5);
}

TEST(FoldBatchNorms, Refusals) {
  Session whole = session_of(net(true));
  const StateDict state = read_state_dict(whole.context());
  const auto without = [&](const std::string& name) {
    StateDict less = state;
    std::erase_if(less.tensors, [&](const auto& tensor) { return tensor.first == name; });
    return less;
  };
  test::expect_error(ErrorKind::DataError, {"folding batch norm: 'bn1.running_mean' is missing"},
                     [&] { fold_batch_norms(whole.model(), without("bn1.running_mean")); });
  test::expect_error(ErrorKind::DataError, {"folding batch norm: 'conv2.weight' is missing"},
                     [&] { fold_batch_norms(whole.model(), without("conv2.weight")); });
  StateDict narrow = state;
  for (auto& [name, tensor] : narrow.tensors)
    if (name == "bn1.bias") tensor.dtype = "F16";
  test::expect_error(ErrorKind::DataError, {"'bn1.bias' is F16, expected F32"},
                     [&] { fold_batch_norms(whole.model(), narrow); });
}

class FoldedEvaluation : public testing::TestWithParam<Layout> {};

TEST_P(FoldedEvaluation, LogitsStayTheSame) {
  Recipe recipe;
  recipe.layout = GetParam();
  for (const bool fused : {true, false}) {
    Session plain(test::residual_net(), INPUT, 5, recipe, fused);
    CompileRequest request = test::session_request(test::residual_net(), INPUT, 5, recipe);
    request.config.bn_folded = true;
    request.target.fuse = fused;
    Session folded(std::make_shared<const CompiledModel>(
                       compile(request, std::make_shared<const Catalog>(make_catalog()))),
                   recipe);
    for (Session* session : {&plain, &folded}) {
      fill_state(*session);
      std::vector<float> pixels(static_cast<size_t>(INPUT.numel()));
      fill(pixels, 9, 4.0);
      const InputSlot slot = session->context().input(0, InputBuffer::A);
      put_pixels(slot, pixels, INPUT.c());
      std::fill(slot.labels, slot.labels + INPUT.n(), 1);
    }
    folded.context().capture_parts(Variant::VAL_BASE, InputBuffer::A, {GraphId::EVAL_SETUP})->launch();
    for (Session* session : {&plain, &folded})
      session->context().capture(Variant::VAL_BASE, InputBuffer::A)->launch();
    const std::string out = GetParam() == Layout::LINEAR ? "fc.out" : "fc.out.inference";
    expect_near(folded.read(folded.id(out)), plain.read(plain.id(out)), 1e-5);
    const Statistics& bn1 = folded.model().statistics.front();
    const float weight = folded.read(bn1.weight.master)[2], bias = folded.read(bn1.bias.master)[2];
    const float mean = folded.read(bn1.tensors.prev_mean)[2], variance = folded.read(bn1.tensors.prev_var)[2];
    const double scale = double{weight} / std::sqrt(double{variance} + 1e-5);
    EXPECT_FLOAT_EQ(folded.read(bn1.tensors.eq_scale)[2], static_cast<float>(scale));
    EXPECT_FLOAT_EQ(folded.read(bn1.tensors.eq_bias)[2],
                    static_cast<float>(double{bias} - double{mean} * scale));
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, FoldedEvaluation, testing::Values(Layout::PACKED, Layout::LINEAR),
                         [](const auto& test) { return std::string(layout_name(test.param)); });

}  // namespace
}  // namespace tr
