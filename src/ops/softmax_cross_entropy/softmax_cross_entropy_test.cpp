#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "support/expect_error.h"
#include "support/op_rig.h"

namespace tr {
namespace {

using test::Expect;
using test::expect_error;
using test::OpCase;
using test::OpRig;

constexpr float NOT_A_NUMBER = std::numeric_limits<float>::quiet_NaN();

/// Logits row by row, one label each.
struct Loss {
  Loss(int64_t classes, const std::vector<float>& logits, const std::vector<int32_t>& labels,
       float smoothing = 0.0f, float loss_scale = 1.0f, float mix_share = -1.0f)
      : catalog(make_catalog()) {
    OpCase c;
    c.op = "softmax_cross_entropy";
    c.x = {Shape(static_cast<int64_t>(labels.size()), 1, 1, classes)};
    c.labels = labels;
    c.label_smoothing = smoothing;
    c.loss_scale = loss_scale;
    if (mix_share >= 0.0f) {
      c.attrs.set("mix", true);
      c.mix_share = mix_share;
    }
    rig.emplace(catalog, c);
    std::ranges::copy(logits, rig->values(Port::X).begin());
  }
  float value(int id) { return rig->values(Port::BASELINE, id)[0]; }
  std::span<float> dx() { return rig->values(Port::DX); }

  Catalog catalog;
  std::optional<OpRig> rig;
};

TEST(SoftmaxCrossEntropy, ClosedForm) {
  const float log3 = std::log(3.0f);
  Loss loss(2, {log3, 0.0f, 0.0f, log3}, {0, 0}, 0.0f, 8.0f);
  loss.rig->run(Pass::FORWARD);
  EXPECT_NEAR(loss.value(LOSS), (std::log(4.0 / 3.0) + std::log(4.0)) / 2.0, 1e-6);
  const std::vector<float> expected{-1.0f, 1.0f, -3.0f, 3.0f};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(loss.dx()[i], expected[i], 1e-5);
  EXPECT_EQ(loss.value(TOP1), 0.5f);
  EXPECT_EQ(loss.value(TOP5), 1.0f);
}

TEST(SoftmaxCrossEntropy, SmoothingInTrainingOnly) {
  const float log3 = std::log(3.0f);
  Loss loss(2, {log3, 0.0f}, {0}, 0.2f);
  loss.rig->run(Pass::FORWARD);
  EXPECT_NEAR(loss.value(LOSS), 0.9 * std::log(4.0 / 3.0) + 0.1 * std::log(4.0), 1e-6);
  EXPECT_NEAR(loss.dx()[0], 0.75 - 0.9, 1e-6);
  EXPECT_NEAR(loss.dx()[1], 0.25 - 0.1, 1e-6);
  loss.rig->run(Pass::INFERENCE);
  EXPECT_NEAR(loss.value(LOSS), std::log(4.0 / 3.0), 1e-6);
}

/// (1 - share) of the own label's loss and share of that of the label at the other end of the batch.
TEST(SoftmaxCrossEntropy, MixedLabels) {
  const std::vector<float> logits{1.0f, 2.0f, 4.0f, 0.5f, -1.0f, 0.0f, 3.0f, 1.0f, 1.0f};
  const std::vector<int32_t> labels{0, 1, 2}, partners{2, 1, 0};
  for (const float smoothing : {0.0f, 0.3f}) {
    Loss own(3, logits, labels, smoothing), other(3, logits, partners, smoothing);
    for (Loss* loss : {&own, &other}) loss->rig->run(Pass::FORWARD);
    for (const float share : {0.25f, 0.5f, 0.75f, 1.0f}) {
      Loss mixed(3, logits, labels, smoothing, 1.0f, share);
      mixed.rig->run(Pass::FORWARD);
      const auto blend = [share](float a, float b) { return (1.0f - share) * a + share * b; };
      EXPECT_NEAR(mixed.value(LOSS), blend(own.value(LOSS), other.value(LOSS)), 1e-6);
      for (size_t i = 0; i < 9; ++i)
        EXPECT_NEAR(mixed.dx()[i], blend(own.dx()[i], other.dx()[i]), 1e-6) << share << ' ' << i;
      // Predicted are 2, 0 and 0: none of the own labels, two of the partners'.
      EXPECT_FLOAT_EQ(mixed.value(TOP1), share > 0.5f ? 2.0f / 3.0f : 0.0f) << share;
      mixed.rig->run(Pass::INFERENCE);
      Loss plain(3, logits, labels);
      plain.rig->run(Pass::INFERENCE);
      EXPECT_EQ(mixed.value(LOSS), plain.value(LOSS));
    }
  }
}

TEST(SoftmaxCrossEntropy, AShareOfZeroChangesNoBit) {
  const std::vector<float> logits{1.0f, 2.0f, 4.0f, 0.5f, -1.0f, 0.0f, 3.0f, 1.0f, 1.0f};
  const std::vector<int32_t> labels{0, -1, 2};
  Loss plain(3, logits, labels, 0.1f, 3.0f), mixed(3, logits, labels, 0.1f, 3.0f, 0.0f);
  for (Loss* loss : {&plain, &mixed}) loss->rig->run(Pass::FORWARD);
  for (const int id : {LOSS, TOP1, TOP5}) EXPECT_EQ(plain.value(id), mixed.value(id));
  EXPECT_TRUE(std::ranges::equal(plain.dx(), mixed.dx()));
}

TEST(SoftmaxCrossEntropy, APartnerThatIsNoClassShows) {
  for (const int32_t label : {-1, 3}) {
    Loss loss(3, {1.0f, 2.0f, 3.0f, 1.0f, 2.0f, 3.0f}, {1, label}, 0.0f, 1.0f, 0.25f);
    loss.rig->run(Pass::FORWARD, Expect::ANY);
    EXPECT_TRUE(std::isnan(loss.value(LOSS)));
    EXPECT_TRUE(std::isnan(loss.dx()[0]));
  }
}

TEST(SoftmaxCrossEntropy, PaddingDoesNotCount) {
  Loss loss(3, {1.0f, 2.0f, 3.0f, NOT_A_NUMBER, 0.0f, 0.0f, 3.0f, 2.0f, 1.0f}, {2, -1, 1});
  loss.rig->run(Pass::FORWARD);
  EXPECT_NEAR(loss.value(LOSS), 0.90760596, 1e-6);
  EXPECT_EQ(loss.value(TOP1), 0.5f);
  EXPECT_TRUE(std::ranges::all_of(loss.dx().subspan(3, 3), [](float g) { return g == 0.0f; }));

  Loss none(3, {1.0f, 2.0f, 3.0f}, {-1});
  for (const Pass pass : {Pass::FORWARD, Pass::INFERENCE}) {
    none.rig->run(pass);
    for (const int id : {LOSS, TOP1, TOP5}) EXPECT_EQ(none.value(id), 0.0f);
  }
  EXPECT_TRUE(std::ranges::all_of(none.dx(), [](float g) { return g == 0.0f; }));
}

TEST(SoftmaxCrossEntropy, TiesRankByPlace) {
  const std::vector<float> equal(7, 1.0f);
  for (int32_t label = 0; label < 7; ++label) {
    Loss loss(7, equal, {label});
    loss.rig->run(Pass::INFERENCE);
    EXPECT_EQ(loss.value(TOP1), label == 0 ? 1.0f : 0.0f);
    EXPECT_EQ(loss.value(TOP5), label < 5 ? 1.0f : 0.0f);
    EXPECT_EQ(loss.rig->ints(Port::BASELINE, PREDICTED_LABEL)[0], 0);
  }
}

TEST(SoftmaxCrossEntropy, LargeLogitsDoNotOverflow) {
  Loss loss(3, {3e4f, -3e4f, 0.0f}, {1});
  loss.rig->run(Pass::FORWARD);
  EXPECT_FLOAT_EQ(loss.value(LOSS), 6e4f);
}

TEST(SoftmaxCrossEntropy, NaNLogitsAreWrongAndShow) {
  for (const size_t place : {size_t{0}, size_t{2}}) {
    std::vector<float> logits{5.0f, 1.0f, 0.0f, 5.0f, 1.0f, 0.0f};
    logits[place] = NOT_A_NUMBER;
    Loss loss(3, logits, {0, 0});
    loss.rig->run(Pass::INFERENCE, Expect::ANY);
    EXPECT_TRUE(std::isnan(loss.value(LOSS)));
    EXPECT_EQ(loss.value(TOP1), 0.5f);
    EXPECT_EQ(loss.value(TOP5), 0.5f);
    EXPECT_EQ(loss.rig->ints(Port::BASELINE, PREDICTED_LABEL)[0], static_cast<int32_t>(place));
  }
}

TEST(SoftmaxCrossEntropy, LabelsThatAreNoClassNeverIndex) {
  for (const int32_t label :
       {3, -2, std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::min()}) {
    Loss loss(3, {1.0f, 2.0f, 3.0f, 1.0f, 2.0f, 3.0f}, {label, 2});
    loss.rig->run(Pass::FORWARD, Expect::ANY);
    EXPECT_TRUE(std::isnan(loss.value(LOSS)));
    EXPECT_TRUE(std::isnan(loss.dx()[0]));
    EXPECT_TRUE(std::isfinite(loss.dx()[3]));
    EXPECT_EQ(loss.value(TOP1), 0.5f);
  }
}

TEST(SoftmaxCrossEntropy, RefusesMaps) {
  const Catalog catalog = make_catalog();
  expect_error(ErrorKind::ShapeError, {"logits are [2,3,1,10]", "flatten()"}, [&] {
    catalog.find("softmax_cross_entropy").spec->infer({}, std::vector{Shape(2, 3, 1, 10)}, "loss");
  });
}

}  // namespace
}  // namespace tr
