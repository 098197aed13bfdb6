#include "support/sixteen_bits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/op_rig.h"

namespace tr::test {
namespace {

TEST(SixteenBits, RoundsToNearestEven) {
  constexpr float INF = std::numeric_limits<float>::infinity();
  struct Case {
    float value;
    uint16_t fp16, bf16;
  };
  for (const Case& c : {Case{0.0f, 0x0000, 0x0000},
                        {-0.0f, 0x8000, 0x8000},
                        {1.0f, 0x3c00, 0x3f80},
                        {-2.5f, 0xc100, 0xc020},
                        {65519.0f, 0x7bff, 0x4780},
                        {65520.0f, 0x7c00, 0x4780},
                        {1.0f + 0x1p-11f, 0x3c00, 0x3f80},
                        {1.0f + 0x3p-11f, 0x3c02, 0x3f80},
                        {1.0f + 0x1p-8f, 0x3c04, 0x3f80},
                        {1.0f + 0x3p-8f, 0x3c0c, 0x3f82},
                        {2.0f - 0x1p-20f, 0x4000, 0x4000},
                        {0x1p-24f, 0x0001, 0x3380},
                        {0x1p-25f, 0x0000, 0x3300},
                        {0x3p-25f, 0x0002, 0x33c0},
                        {0x1p-14f, 0x0400, 0x3880},
                        {0x1p-133f, 0x0000, 0x0001},
                        {std::numeric_limits<float>::max(), 0x7c00, 0x7f80},
                        {INF, 0x7c00, 0x7f80},
                        {-INF, 0xfc00, 0xff80}}) {
    EXPECT_EQ(to_16bit(c.value, DType::FP16), c.fp16) << c.value;
    EXPECT_EQ(to_16bit(c.value, DType::BF16), c.bf16) << c.value;
  }
  EXPECT_TRUE(std::isnan(rounded(NAN, DType::FP16)));
  EXPECT_TRUE(std::isnan(rounded(-NAN, DType::BF16)));
}

TEST(SixteenBits, EveryValueComesBack) {
  for (const DType dtype : {DType::FP16, DType::BF16})
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      const float value = from_16bit(static_cast<uint16_t>(bits), dtype);
      if (!std::isnan(value)) {
        ASSERT_EQ(to_16bit(value, dtype), bits) << dtype_name(dtype);
      }
    }
}

TEST(OpRig, HoldsSixteenBitTensors) {
  const Catalog catalog = make_catalog();
  OpRig rig(catalog, {.op = "fc",
                      .attrs = {{"out_features", int64_t{2}}},
                      .x = {Shape(3, 2, 1, 3)},
                      .dtype = DType::FP16,
                      .reads_network_input = true,
                      .flatten_x = true});
  EXPECT_EQ(rig.tensor(Port::X).strides[2], 4) << "the network's input has channel padding";
  EXPECT_EQ(rig.tensor(Port::PARAM, 0).region, Region::A_FC_WEIGHT);
  EXPECT_EQ(rig.tensor(Port::PARAM_GRAD, 0).dtype, DType::FP16);
  EXPECT_EQ(rig.tensor(Port::PARAM, 1).dtype, DType::FP32);
  const std::vector<float> x = rig.get(Port::X);
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(x[i], rounded(fill_value(i, 1), DType::FP16));
  std::vector<float> changed = x;
  changed[7] = 0.1f;
  rig.set(Port::X, 0, changed);
  changed[7] = rounded(0.1f, DType::FP16);
  EXPECT_EQ(rig.get(Port::X), changed);
}

}  // namespace
}  // namespace tr::test
