#include "support/layout_training.h"

#include <map>
#include <ostream>
#include <utility>

namespace tr::test {

namespace {

constexpr int64_t CLASSES = 5;

BluePrint conv_bn_relu(int64_t channels) {
  return seq(conv(channels, 3, 1, 1, {.bias = false}), bn(), relu());
}

}  // namespace

void PrintTo(const LayoutCase& c, std::ostream* out) { *out << c.name; }

std::vector<LayoutCase> layout_cases() {
  const Shape image(6, 12, 12, 3);
  const BluePrint mlp = seq(flatten(), fc(24), relu(), fc(17), relu(), fc(CLASSES));
  const BluePrint dropping =
      seq(conv(8, 3, 1, 1, {.bias = false}), bn(), relu(), maxpool(2, 2), conv(16, 3, 2, 1), relu(),
          dropout(0.25), conv(12, 3, 1, 1), dropout(0.5), gap(), flatten(), fc(CLASSES));
  const BluePrint plain =
      seq(conv_bn_relu(8), conv_bn_relu(8), maxpool(2, 2), conv_bn_relu(16), conv_bn_relu(16), maxpool(2, 2),
          flatten(), fc(32), relu(), dropout(0.5), fc(CLASSES));
  const BluePrint leaky =
      seq(conv(7, 3, 1, 1), leaky_relu(0.1), avgpool(2, 2), conv(9, 3, 1, 1), bn(), leaky_relu(-0.2),
          avgpool(3, 2, 1), leaky_relu(), gap(), flatten(), fc(CLASSES));
  const BluePrint block = seq(conv(8, 5, 1, 2, {.groups = 8}), layer_norm(), conv(16, 1), gelu(), conv(8, 1),
                              layer_scale(0.5), stochastic_depth(0.4));
  const BluePrint smooth =
      seq(conv(8, 3, 1, 1, {.bias = false}), bn(), hardswish(), residual(block), elu(), conv(12, 3, 2, 1),
          silu(), residual(seq(conv(12, 1), sigmoid(), stochastic_depth(0.3, "batch"))), tanh(),
          conv(9, 3, 1, 1), relu6(), gelu("tanh"), gap(), flatten(), fc(7), hardsigmoid(), fc(CLASSES));
  const BluePrint gate = seq(gap(), conv(4, 1), silu(), conv(17, 1), sigmoid());
  const BluePrint branched = seq(
      conv(8, 3, 1, 1, {.bias = false}), bn(), relu(),
      branches("concat", {identity(), seq(conv(4, 1), relu()), seq(maxpool(3, 1, 1), conv(5, 1))}),
      branches("channel_scale", {identity(), gate}), maxpool(3, 2, 0, true),
      branches("add", {conv(6, 3, 1, 1), conv(6, 1)}), relu(), adaptive_avgpool(4), flatten(), fc(CLASSES));
  return {{"mlp", mlp, image},
          {"cnn_dropout", dropping, image},
          {"residual", residual_net(), image},
          {"residual_apart", residual_net(), image, false},
          {"plain_bn", plain, image},
          {"leaky_avgpool", leaky, image},
          {"smooth", smooth, image},
          {"branched", branched, image}};
}

CompileRequest layout_request(const LayoutCase& c, const Recipe& recipe) {
  const auto of_batch = [&](int64_t samples) {
    return Shape(samples, c.input.h(), c.input.w(), c.input.c());
  };
  CompileRequest request = session_request(c.net, c.input, CLASSES, recipe);
  request.target.fuse = c.fused;
  const Shape last = of_batch(c.input.n() - 2);
  request.inputs = {c.input, last, c.input, last, of_batch(c.input.n() + 3), of_batch(1)};
  return request;
}

CompiledModel compile_layout(const CompileRequest& request) {
  return compile(request, std::make_shared<const Catalog>(make_catalog()));
}

TrainingTrace trace_training(Session& session) {
  Context& context = session.context();
  std::map<std::pair<Variant, InputBuffer>, std::unique_ptr<CapturedStep>> steps;
  for (const Variant variant :
       {Variant::TRAIN_BASE, Variant::TRAIN_LAST, Variant::VAL_BASE, Variant::VAL_LAST})
    for (const InputBuffer buffer : {InputBuffer::A, InputBuffer::B})
      steps[{variant, buffer}] = context.capture(variant, buffer);
  TrainingTrace trace;
  uint64_t number = 0;
  const auto run = [&](Variant variant) {
    const MemoryPlan& plan = session.model().plan(variant);
    const InputBuffer buffer = number % 2 == 0 ? InputBuffer::A : InputBuffer::B;
    const Batch batch = make_batch(plan.tensor(INPUT_A_DATA).shape, CLASSES, number++);
    session.feed(buffer, batch.pixels, batch.labels, variant);
    context.load_input(variant, buffer);
    steps[{variant, buffer}]->launch();
    trace.losses.push_back(session.number(LOSS));
    trace.top1.push_back(session.number(TOP1));
    if (is_training(variant)) return;
    std::vector<int32_t> predicted(batch.labels.size());
    context.read(0, plan.tensor(PREDICTED_LABEL).offset, predicted.data(),
                 static_cast<int64_t>(predicted.size() * sizeof(int32_t)));
    trace.predictions.insert(trace.predictions.end(), predicted.begin(), predicted.end());
  };
  for (int round = 0; round < 2; ++round)
    for (const Variant variant : {Variant::TRAIN_BASE, Variant::TRAIN_BASE, Variant::TRAIN_LAST,
                                  Variant::VAL_BASE, Variant::VAL_LAST})
      run(variant);
  trace.parameters = session.bytes(Region::W_BN_BIAS, Region::W_DEEP_CONV);
  for (const BaselineId id : {LOSS_SUM, TOP1_SUM, TOP5_SUM}) trace.sums.push_back(session.number(id));
  trace.moments = session.bytes(Region::M_BN_BIAS, Region::M_DEEP_CONV);
  trace.statistics = session.bytes(Region::B_PREV_MEAN, Region::B_NEXT_VAR);
  return trace;
}

}  // namespace tr::test
