// FP16 and BF16 on the CPU: every operator gives what its FP32 kernel gives for the same operands, rounded
// once.
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "support/op_rig.h"
#include "support/reference.h"
#include "support/sixteen_bits.h"

namespace tr::test {
namespace {

OpCase as(OpCase c, DType dtype) {
  c.dtype = dtype;
  return c;
}

/// One operator in 16 bits and in FP32.
class Pair {
 public:
  Pair(const Catalog& catalog, const OpCase& c, DType dtype)
      : narrow(catalog, as(c, dtype)), wide(catalog, as(c, DType::FP32)), dtype_(dtype) {}

  void run(Pass pass) {
    SCOPED_TRACE(pass_name(pass));
    const std::vector<Use> uses = narrow.spec().uses(narrow.query(), pass);
    for (const Use& use : uses)
      if (use.read && wide.tensor(use.port, use.index).dtype == DType::FP32)
        wide.set(use.port, use.index, narrow.get(use.port, use.index));
    narrow.run(pass, Expect::ANY);
    wide.run(pass, Expect::ANY);
    for (const Use& use : uses)
      if (use.write) compare(use.port, use.index);
  }

  OpRig narrow, wide;

 private:
  void compare(Port port, int index) {
    const bool rounds = narrow.tensor(port, index).dtype == dtype_;
    const std::vector<float> got = narrow.get(port, index), exact = wide.get(port, index);
    const std::string_view op = narrow.spec().name();
    const bool may_be_native = dtype_ == DType::BF16 && (op == "conv" || op == "fc");
    float largest = 0.0f;
    for (const float value : exact) largest = std::max(largest, std::abs(value));
    for (size_t i = 0; i < got.size(); ++i) {
      const float want = rounds ? rounded(exact[i], dtype_) : exact[i];
      const float one_rounding = rounds ? std::abs(exact[i]) * 0x1p-8f : 0.0f;
      const bool near = may_be_native && std::abs(got[i] - exact[i]) <= one_rounding + 2e-5f * largest;
      ASSERT_TRUE(got[i] == want || near || (std::isnan(got[i]) && std::isnan(want)))
          << port_name(port) << '[' << index << "] element " << i << " is " << got[i] << ", in fp32 "
          << exact[i];
    }
  }

  DType dtype_;
};

class SixteenBitOperators : public testing::TestWithParam<DType> {};

TEST_P(SixteenBitOperators, AreTheFp32KernelsRoundedOnce) {
  const Catalog catalog = make_catalog();
  std::set<std::string> tested;
  for (const nlohmann::json& json : load_reference("ops.json")) {
    const OpCase c = op_case_of(json);
    SCOPED_TRACE(c.layer);
    tested.insert(c.op);
    Pair pair(catalog, c, GetParam());
    if (pair.wide.offer(Pass::FORWARD).supported()) {
      pair.run(Pass::FORWARD);
      if (!pair.narrow.spec().passes_gradient_through(pair.narrow.query().attrs))
        for (const Pass pass : pair.narrow.spec().backward_passes(pair.narrow.query())) pair.run(pass);
    }
    pair.run(Pass::INFERENCE);
  }
  for (const std::string& name : catalog.names()) {
    const bool computes = catalog.find(name).kernels[static_cast<size_t>(BackendKind::CPU)] != nullptr;
    EXPECT_EQ(tested.contains(name), computes) << name << ": its cases in ops.json";
  }
}

TEST_P(SixteenBitOperators, NetworkInputIsPaddedToFourChannels) {
  const Catalog catalog = make_catalog();
  for (const int64_t channels : {1, 3, 4, 5}) {
    OpCase c{.op = "conv",
             .attrs = {{"out_channels", int64_t{7}}, {"kernel", int64_t{3}}, {"padding", int64_t{1}}},
             .x = {Shape(2, 5, 6, channels)},
             .reads_network_input = true,
             .needs_dx = {false}};
    Pair pair(catalog, c, GetParam());
    EXPECT_EQ(pair.narrow.tensor(Port::X).strides[2], round_up(channels, 4));
    for (const Pass pass : {Pass::FORWARD, Pass::INFERENCE, Pass::BACKWARD_WEIGHT}) pair.run(pass);
  }
}

/// Where the kernel's own sums do not depend on the number of threads, neither does the result.
TEST_P(SixteenBitOperators, ThreadsChangeNoBit) {
  const Catalog catalog = make_catalog();
  const Shape map(4, 33, 31, 24);  // several pieces
  const int before = omp_get_max_threads();
  for (const OpCase& c : {OpCase{.op = "bn", .attrs = {{"activation", std::string("relu")}}, .x = {map}},
                          OpCase{.op = "relu", .x = {map}}, OpCase{.op = "add", .x = {map, map}},
                          OpCase{.op = "maxpool", .attrs = {{"kernel", int64_t{2}}}, .x = {map}},
                          OpCase{.op = "gap", .x = {map}}}) {
    std::vector<float> y[2], dx[2];
    for (const int threads : {1, 2}) {
      omp_set_num_threads(threads);
      OpRig rig(catalog, as(c, GetParam()));
      rig.run(Pass::FORWARD);
      rig.run_backward();
      y[threads - 1] = rig.get(Port::Y);
      dx[threads - 1] = rig.get(Port::DX);
    }
    EXPECT_EQ(y[0], y[1]) << c.op;
    EXPECT_EQ(dx[0], dx[1]) << c.op;
  }
  omp_set_num_threads(before);
}

/// The workspace of the FP32 kernel, then the copies, each in a slice of 256 bytes or more of them.
TEST_P(SixteenBitOperators, OfferTheCopiesBehindTheKernelsWorkspace) {
  const Catalog catalog = make_catalog();
  const OpCase c{.op = "bn", .attrs = {}, .x = {Shape(2, 5, 5, 7)}};
  const OpRig narrow(catalog, as(c, GetParam())), wide(catalog, c);
  const int64_t map = round_up(2 * 5 * 5 * 7 * 4, 256);
  const auto copies = [&](Pass pass) {
    return narrow.offer(pass).workspace_bytes - wide.offer(pass).workspace_bytes;
  };
  EXPECT_EQ(copies(Pass::FORWARD), 2 * map) << "statistics and parameters are FP32";
  EXPECT_EQ(copies(Pass::BACKWARD), 2 * map) << "dx lies on dy";
  const OpRig one_value(catalog, {.op = "bn", .attrs = {}, .x = {Shape(1, 1, 1, 8)}, .dtype = GetParam()});
  EXPECT_NE(one_value.offer(Pass::FORWARD).declined.find("has no variance"), std::string::npos)
      << "declined for the kernel's own reason";
}

/// A large evaluation batch needs copies of a few samples only, and gives what it gives at once.
TEST_P(SixteenBitOperators, EvaluationCopiesAFewSamplesAtATime) {
  const Catalog catalog = make_catalog();
  for (const OpCase& c : {OpCase{.op = "bn", .attrs = {}, .x = {Shape(11, 64, 64, 32)}},
                          OpCase{.op = "add", .attrs = {}, .x = {Shape(7, 64, 64, 32), Shape(7, 64, 64, 32)}},
                          OpCase{.op = "gap", .attrs = {}, .x = {Shape(13, 64, 64, 32)}}}) {
    Pair pair(catalog, c, GetParam());
    EXPECT_LE(pair.narrow.offer(Pass::INFERENCE).workspace_bytes, 6 << 20) << c.op;
    pair.run(Pass::INFERENCE);
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, SixteenBitOperators, testing::Values(DType::FP16, DType::BF16),
                         [](const auto& tested) { return std::string(dtype_name(tested.param)); });

}  // namespace
}  // namespace tr::test
