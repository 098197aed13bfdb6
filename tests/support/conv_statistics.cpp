#include "support/conv_statistics.h"

#include <algorithm>
#include <cmath>

namespace tr::test {

namespace {

/// Of FP32 accumulators or of what was stored: half a step of the type apart, element by element.
double statistics_tolerance(DType dtype) {
  return dtype == DType::FP32 ? 1e-5 : dtype == DType::FP16 ? 1e-3 : 8e-3;
}

/// The sums beside what they say, in double, of the y that the pass stored.
void expect_statistics_of_y(OpRig& rig) {
  const std::vector<float> y = rig.get(Port::Y), statistics = rig.get(Port::STATISTICS);
  const auto channels = static_cast<size_t>(rig.query().y.c());
  std::vector<double> sums(channels, 0.0), squares(channels, 0.0), magnitudes(channels, 0.0);
  for (size_t i = 0; i < y.size(); ++i) {
    sums[i % channels] += double{y[i]};
    magnitudes[i % channels] += std::abs(double{y[i]});
    squares[i % channels] += double{y[i]} * double{y[i]};
  }
  const double tolerance = statistics_tolerance(rig.query().dtype);
  for (size_t c = 0; c < channels; ++c) {
    EXPECT_NEAR(statistics[c], sums[c], tolerance * magnitudes[c] + 1e-6) << "sum of channel " << c;
    EXPECT_NEAR(statistics[channels + c], squares[c], 2.0 * tolerance * squares[c] + 1e-6)
        << "sum of squares of channel " << c;
  }
  if (rig.params().size() < 2) return;
  ASSERT_EQ(rig.tensor(Port::STATISTICS).shape.w(), 3);
  const std::vector<float> offset(statistics.begin() + 2 * static_cast<std::ptrdiff_t>(channels),
                                  statistics.end());
  EXPECT_EQ(offset, rig.get(Port::PARAM, 1)) << "the offset is the bias";
}

}  // namespace

void check_convolution_with_statistics(const Catalog& catalog, OpCase c) {
  c.statistics = true;
  c.statistics_rows = complete_attributes(*catalog.find(c.op).spec, c.attrs, c.layer).flag("bias") ? 3 : 2;
  CudaPair pair(catalog, c);
  const bool bias = pair.cuda.params().size() > 1;
  if (bias) std::ranges::fill(pair.cpu.values(Port::PARAM, 1), 0.0f);
  pair.run(Pass::FORWARD);
  expect_statistics_of_y(pair.cuda);
  for (OpRig* rig : {&pair.cuda, &pair.cpu}) rig->run_backward();
  for (const Port port : {Port::DX, Port::PARAM_GRAD})
    if (pair.cuda.has(port)) {
      EXPECT_TRUE(close_to(pair.cuda.get(port), pair.cpu.get(port), tolerance_of(c.dtype)))
          << port_name(port);
    }
  if (bias) {
    EXPECT_TRUE(std::ranges::all_of(pair.cuda.get(Port::PARAM_GRAD, 1), [](float g) { return g == 0.0f; }));
  }
}

}  // namespace tr::test
