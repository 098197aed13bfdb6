#include "renaissance/graph/blueprint.h"

#include <gtest/gtest.h>

#include <functional>

#include "renaissance/core/error.h"
#include "renaissance/graph/op_spec.h"

namespace tr {
namespace {

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Attributes, KeepOrderAndReplace) {
  Attributes attrs{{"kernel", int64_t{3}}, {"bias", false}, {"rate", 0.5}, {"mode", std::string("same")}};
  attrs.set("kernel", int64_t{5});
  attrs.set("stride", int64_t{2});
  EXPECT_EQ(attrs.integer("kernel"), 5);
  EXPECT_FALSE(attrs.flag("bias"));
  EXPECT_EQ(attrs.text("mode"), "same");
  EXPECT_TRUE(attrs.has("stride"));
  EXPECT_FALSE(attrs.has("padding"));
  std::vector<std::string> names;
  for (const auto& item : attrs.items()) names.push_back(item.first);
  EXPECT_EQ(names, (std::vector<std::string>{"kernel", "bias", "rate", "mode", "stride"}));
}

TEST(Attributes, AnIntegerReadsAsANumberButNotTheOtherWayRound) {
  const Attributes attrs{{"one", int64_t{1}}, {"half", 0.5}};
  EXPECT_EQ(attrs.number("one"), 1.0);
  EXPECT_EQ(attrs.number("half"), 0.5);
  EXPECT_EQ(error_of([&] { attrs.integer("half"); }),
            "attribute 'half' is a number (0.5), expected an integer");
  EXPECT_EQ(error_of([&] { attrs.flag("one"); }), "attribute 'one' is an integer (1), expected a boolean");
  EXPECT_EQ(error_of([&] { attrs.text("gone"); }), "attribute 'gone' is missing; expected text");
}

TEST(Attributes, ValuesAsText) {
  EXPECT_EQ(str(AttrValue(true)), "true");
  EXPECT_EQ(str(AttrValue(int64_t{-7})), "-7");
  EXPECT_EQ(str(AttrValue(1.0)), "1.0");
  EXPECT_EQ(str(AttrValue(1e-5)), "1e-05");
  EXPECT_EQ(str(AttrValue(0.1)), "0.1");
  EXPECT_EQ(str(AttrValue(std::string("relu"))), "relu");
}

TEST(BluePrint, BuildersNameEveryAttribute) {
  const BluePrint layer = conv(64, 3, 2, 1, {.bias = false, .groups = 4, .dilation = 2});
  EXPECT_EQ(layer.kind, BluePrint::Kind::OP);
  EXPECT_EQ(layer.op, "conv");
  EXPECT_EQ(layer.attrs.integer("out_channels"), 64);
  EXPECT_EQ(layer.attrs.integer("kernel"), 3);
  EXPECT_EQ(layer.attrs.integer("stride"), 2);
  EXPECT_EQ(layer.attrs.integer("padding"), 1);
  EXPECT_EQ(layer.attrs.integer("dilation"), 2);
  EXPECT_EQ(layer.attrs.integer("groups"), 4);
  EXPECT_FALSE(layer.attrs.flag("bias"));
  EXPECT_EQ(bn().attrs.number("epsilon"), 1e-5);
  EXPECT_TRUE(conv(8, 1, 1, 0, {.linear = true}).attrs.flag("linear"));
  EXPECT_EQ(maxpool(3, 2, 1).attrs.integer("padding"), 1);
  EXPECT_TRUE(maxpool(3, 2, 0, true).attrs.flag("ceil"));
  EXPECT_EQ(adaptive_avgpool(7).attrs.integer("size"), 7);
  EXPECT_TRUE(fc(10).attrs.flag("bias"));
  EXPECT_EQ(dropout().attrs.number("probability"), 0.5);
  EXPECT_EQ(leaky_relu().attrs.number("negative_slope"), 0.01);
  EXPECT_EQ(elu(0.5).attrs.number("alpha"), 0.5);
  EXPECT_EQ(gelu().attrs.text("approximate"), "none");
  EXPECT_EQ(layer_norm().attrs.number("epsilon"), 1e-6);
  EXPECT_EQ(layer_scale().attrs.number("init"), 1e-6);
  EXPECT_EQ(stochastic_depth(0.1).attrs.number("probability"), 0.1);
  EXPECT_EQ(stochastic_depth(0.1, "batch").attrs.text("mode"), "batch");
  for (const BluePrint& plain : {sigmoid(), tanh(), silu(), hardswish(), hardsigmoid(), relu6()})
    EXPECT_TRUE(plain.attrs.items().empty()) << plain.op;
}

TEST(BluePrint, RepeatMakesUnnamedCopies) {
  const BluePrint stack = repeat(3, named("block", seq(relu(), bn())));
  EXPECT_EQ(stack.kind, BluePrint::Kind::SEQ);
  ASSERT_EQ(stack.children.size(), 3u);
  for (const BluePrint& child : stack.children) {
    EXPECT_EQ(child.name, "");
    EXPECT_EQ(child.children.size(), 2u);
  }
  EXPECT_THROW(repeat(0, relu()), Error);
}

TEST(BluePrint, ResidualMakesSequencesOfWhatHasNoName) {
  const BluePrint block = residual(conv(8, 3, 1, 1), conv(8, 1));
  EXPECT_EQ(block.kind, BluePrint::Kind::RESIDUAL);
  ASSERT_EQ(block.children.size(), 2u);
  EXPECT_EQ(block.children[0], seq(conv(8, 3, 1, 1)));
  EXPECT_EQ(block.children[1], seq(conv(8, 1)));
  EXPECT_EQ(residual(seq(relu())).children, std::vector<BluePrint>{seq(relu())});
  EXPECT_EQ(residual(seq(relu()), named("shortcut", gap())).children[1], named("shortcut", gap()));
}

TEST(BluePrint, BranchesKeepTheirOrder) {
  const BluePrint block = branches("concat", {identity(), named("b", relu()), without_level(seq(relu()))});
  EXPECT_EQ(block.kind, BluePrint::Kind::BRANCHES);
  EXPECT_EQ(block.op, "concat");
  ASSERT_EQ(block.children.size(), 3u);
  EXPECT_EQ(block.children[0], identity());
  EXPECT_EQ(block.children[1].name, "b");
  EXPECT_EQ(block.children[2].name, NO_LEVEL);
  EXPECT_EQ(error_of([] { branches("add", {}); }), "branches: got none, expected at least one");
}

TEST(BluePrint, EqualityIgnoresWhereItCameFrom) {
  BluePrint a = seq(relu(), bn()), b = a;
  b.children[0].where = "net.yaml:3";
  EXPECT_EQ(a, b);
  b.children[0].name = "act";
  EXPECT_NE(a, b);
}

TEST(NearestName, SuggestsOnlyWhatIsNear) {
  const std::vector<std::string> known{"conv", "bn", "relu", "maxpool", "avgpool", "softmax_cross_entropy"};
  EXPECT_EQ(nearest_name("covn", known), "conv");  // a transposition counts once
  EXPECT_EQ(nearest_name("ReLU", known), "relu");
  EXPECT_EQ(nearest_name("max_pool", known), "maxpool");
  EXPECT_EQ(nearest_name("softmax_crossentropi", known), "softmax_cross_entropy");
  EXPECT_EQ(nearest_name("transformer", known), "");
  EXPECT_EQ(nearest_name("xy", known), "");  // two letters, both wrong
  EXPECT_EQ(nearest_name("", known), "");
  EXPECT_EQ(nearest_name("relu", {}), "");
}

TEST(NearestName, TheFirstOfEquallyNearOnesWins) {
  const std::vector<std::string> known{"train.warmup", "train.warmap"};
  EXPECT_EQ(nearest_name("train.warmop", known), "train.warmup");
}

}  // namespace
}  // namespace tr
