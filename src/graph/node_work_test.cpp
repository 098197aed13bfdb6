#include "renaissance/graph/node_work.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tr {
namespace {

CompiledModel small_model(BackendKind backend, Precision precision) {
  CompileRequest request;
  request.model = seq(named("conv", conv(8, 3, 1, 1)), gap(), flatten(), named("fc", fc(5)));
  const Shape input(2, 4, 6, 3), last(1, 4, 6, 3);
  request.inputs = {input, last, input, last, input, last};
  request.classes = 5;
  request.config.precision = precision;
  request.target = default_target(backend);
  request.plan_only = true;
  return compile(request, std::make_shared<const Catalog>(make_catalog()));
}

NodeWork work_of(const CompiledModel& model, GraphId part, const std::string& node, Variant variant) {
  const std::vector<GraphNode>& nodes = model.graph.part(part);
  const auto found = std::ranges::find(nodes, node, &GraphNode::name);
  TR_CHECK(found != nodes.end(), IndexError, node);
  return node_work(model, *found, variant);
}

TEST(NodeWork, OfAConvolution) {
  const CompiledModel model = small_model(BackendKind::CPU, Precision::FP32);
  const NodeWork whole = work_of(model, GraphId::FORWARD, "conv forward", Variant::TRAIN_BASE);
  EXPECT_EQ(whole.bytes, 4 * (2 * 4 * 6 * 3 + 8 * 9 * 3 + 8 + 2 * 4 * 6 * 8));
  EXPECT_EQ(whole.flops, 2 * 2 * 4 * 6 * 8 * 9 * 3);
  const NodeWork last = work_of(model, GraphId::FORWARD, "conv forward", Variant::TRAIN_LAST);
  EXPECT_EQ(last.bytes, 4 * (4 * 6 * 3 + 8 * 9 * 3 + 8 + 4 * 6 * 8));
  EXPECT_EQ(last.flops, whole.flops / 2);
}

/// In 16 bits a pixel of the input has four channels.
TEST(NodeWork, CountsPaddedChannels) {
  const CompiledModel model = small_model(BackendKind::CUDA, Precision::FP16);
  EXPECT_EQ(work_of(model, GraphId::FORWARD, "conv forward", Variant::TRAIN_BASE).bytes,
            2 * (2 * 4 * 6 * 4 + 8 * 9 * 3 + 2 * 4 * 6 * 8) + 4 * 8);
}

TEST(NodeWork, OfRanges) {
  const CompiledModel model = small_model(BackendKind::CUDA, Precision::FP16);
  const auto bytes = [&](Region first, Region last) {
    return model.plan(Variant::TRAIN_BASE).region_range(first, last).second;
  };
  const NodeWork cast = work_of(model, GraphId::WEIGHT_CAST, "RANGE_CAST_FP32_TO_FP16", Variant::TRAIN_BASE);
  EXPECT_EQ(cast.bytes, bytes(Region::W_FC_WEIGHT, Region::W_DEEP_CONV) * 3 / 2);
  EXPECT_EQ(cast.flops, 0);
  EXPECT_EQ(work_of(model, GraphId::WATCH, "RANGE_CHECK_NAN", Variant::TRAIN_BASE).bytes,
            bytes(Region::G_BN_BIAS, Region::G_DEEP_CONV));
  EXPECT_EQ(work_of(model, GraphId::INPUT, "RANGE_D2D_COPY", Variant::TRAIN_BASE).bytes, 2 * 2 * 4)
      << "the labels, read and written";
}

}  // namespace
}  // namespace tr
