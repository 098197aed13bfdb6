// Every convolution of ResNet-50 and VGG16-BN, at the size they were designed for, against the CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "renaissance/graph/arch_plan.h"
#include "renaissance/models.h"
#include "support/conv_statistics.h"

namespace tr::test {
namespace {

constexpr int64_t BATCH = 2;

/// The convolutions of a model that differ in shape or attributes, named after the first layer that has them.
std::vector<OpCase> convolutions(const std::string& model) {
  const Catalog catalog = make_catalog();
  const ModelInput input = model_input(model);
  const ArchPlan arch = lower(make_model(model, input.classes), catalog);
  const std::vector<Shape> shapes =
      storage_shapes(arch, infer_shapes(arch, Shape(BATCH, input.height, input.width, input.channels)));
  std::vector<OpCase> cases;
  std::set<std::string> seen;
  for (size_t i = 0; i < arch.layers.size(); ++i) {
    if (arch.layers[i].entry->spec->name() != "conv") continue;
    const OpQuery query = layer_query(arch, i, shapes, DType::FP32, {});
    std::string signature = cat(query.x[0], query.reads_network_input);
    for (const auto& [name, value] : query.attrs.items()) signature += cat(' ', name, '=', str(value));
    if (!seen.insert(signature).second) continue;
    OpCase c{.op = "conv", .attrs = query.attrs, .x = query.x};
    c.reads_network_input = query.reads_network_input;
    if (c.reads_network_input) c.needs_dx = {false};
    c.layer = cat(model, '_', query.layer);
    std::ranges::replace(c.layer, '.', '_');
    cases.push_back(std::move(c));
  }
  return cases;
}

struct Rules {
  DType dtype;
  bool deterministic = true;
};

/// BF16 has FP16's kernels of ours, and cuDNN's own: one model is enough.
std::vector<Rules> rules_for(std::string_view model) {
  std::vector<Rules> rules{{DType::FP32}, {DType::FP16}, {DType::FP16, false}};
  if (model == "resnet50") rules.push_back({DType::BF16});
  return rules;
}

std::vector<OpCase> all_convolutions() {
  std::vector<OpCase> all;
  for (const char* model : {"resnet50", "vgg16_bn"})
    for (OpCase& c : convolutions(model))
      for (const Rules& rules : rules_for(model)) {
        c.dtype = rules.dtype;
        c.target.deterministic = rules.deterministic;
        all.push_back(c);
      }
  return all;
}

class CudaModelConv : public testing::TestWithParam<OpCase> {
 protected:
  void SetUp() override {
    if (!has_cuda_device()) GTEST_SKIP() << "no CUDA device";
  }
};

/// With the statistics for the batch norm that follows, in all types: so that the 16-bit results agree with
/// the card's FP32 ones too. Where any order of sums will do, cuDNN may compute the statistics itself.
TEST_P(CudaModelConv, AgreesWithTheCpu) { check_convolution_with_statistics(make_catalog(), GetParam()); }

INSTANTIATE_TEST_SUITE_P(Cuda, CudaModelConv, testing::ValuesIn(all_convolutions()), [](const auto& tested) {
  return cat(tested.param.layer, '_', dtype_name(tested.param.dtype),
             tested.param.target.deterministic ? "" : "_any_order");
});

TEST(CudaModelConvTable, HasTheShapesOfBothModels) {
  EXPECT_EQ(convolutions("resnet50").size(), 23u);
  EXPECT_EQ(convolutions("vgg16_bn").size(), 9u);
}

}  // namespace
}  // namespace tr::test
