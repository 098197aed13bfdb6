#include "renaissance/models.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "renaissance/core/error.h"

namespace tr {
namespace {

/// What a state_dict of the network lists, found by walking the blueprint with the input's shape.
class StateWalk {
 public:
  explicit StateWalk(const ModelInput& input) : c_(input.channels), h_(input.height), w_(input.width) {}

  void visit(const BluePrint& print, const std::string& name) {
    switch (print.kind) {
      case BluePrint::Kind::OP:
        return visit_op(print, name);
      case BluePrint::Kind::SEQ:
        return visit_children(print, name);
      case BluePrint::Kind::RESIDUAL:
        return visit_residual(print, name);
    }
  }

  const std::vector<std::string>& lines() const { return lines_; }
  int64_t channels() const { return c_; }
  int64_t pixels() const { return h_ * w_; }

 private:
  static std::string join(const std::string& a, const std::string& b) { return a.empty() ? b : a + "." + b; }

  void visit_children(const BluePrint& print, const std::string& name) {
    for (size_t i = 0; i < print.children.size(); ++i) {
      const BluePrint& child = print.children[i];
      visit(child, join(name, child.name.empty() ? std::to_string(i) : child.name));
    }
  }

  void visit_residual(const BluePrint& print, const std::string& name) {
    const StateWalk before = *this;
    visit_children(print.children.at(0), name);
    StateWalk other = before;
    other.lines_.clear();
    if (print.children.size() > 1) other.visit(print.children[1], join(name, "downsample"));
    EXPECT_EQ(other.c_, c_) << name;
    EXPECT_EQ(other.h_, h_) << name;
    EXPECT_EQ(other.w_, w_) << name;
    lines_.insert(lines_.end(), other.lines_.begin(), other.lines_.end());
  }

  void window(const Attributes& attrs) {
    for (int64_t* dim : {&h_, &w_})
      *dim = (*dim + 2 * attrs.integer("padding") - attrs.integer("kernel")) / attrs.integer("stride") + 1;
  }

  void visit_op(const BluePrint& print, const std::string& name) {
    const Attributes& attrs = print.attrs;
    if (print.op == "conv") {
      const int64_t k = attrs.integer("out_channels"), r = attrs.integer("kernel");
      lines_.push_back(cat(name, ".weight [", k, ',', c_ / attrs.integer("groups"), ',', r, ',', r, ']'));
      if (attrs.flag("bias")) lines_.push_back(cat(name, ".bias [", k, ']'));
      window(attrs);
      c_ = k;
    } else if (print.op == "bn") {
      for (const auto* part : {"weight", "bias", "running_mean", "running_var"})
        lines_.push_back(cat(name, '.', part, " [", c_, ']'));
      lines_.push_back(cat(name, ".num_batches_tracked []"));
    } else if (print.op == "fc") {
      EXPECT_EQ(h_ * w_, 1) << name << " needs a flatten before it";
      lines_.push_back(cat(name, ".weight [", attrs.integer("out_features"), ',', c_, ']'));
      lines_.push_back(cat(name, ".bias [", attrs.integer("out_features"), ']'));
      c_ = attrs.integer("out_features");
    } else if (print.op == "maxpool" || print.op == "avgpool") {
      window(attrs);
    } else if (print.op == "gap") {
      h_ = w_ = 1;
    } else if (print.op == "flatten") {
      c_ *= h_ * w_;
      h_ = w_ = 1;
    } else {
      EXPECT_TRUE(print.op == "relu" || print.op == "dropout" || print.op == "identity") << print.op;
    }
  }

  int64_t c_, h_, w_;
  std::vector<std::string> lines_;
};

class TorchvisionModel : public testing::TestWithParam<const char*> {};

TEST_P(TorchvisionModel, HasItsStateDict) {
  const std::string file = cat(TR_SOURCE_DIR, "/tests/reference/state_dict_names/", GetParam(), ".txt");
  std::ifstream in(file);
  ASSERT_TRUE(in) << file;
  std::vector<std::string> expected;
  for (std::string line; std::getline(in, line);) expected.push_back(line);
  ASSERT_FALSE(expected.empty());

  StateWalk walk(model_input(GetParam()));
  walk.visit(make_model(GetParam(), 1000), "");
  EXPECT_EQ(walk.lines(), expected);
}

INSTANTIATE_TEST_SUITE_P(Models, TorchvisionModel,
                         testing::Values("resnet18", "resnet34", "resnet50", "resnet101", "vgg16_bn"),
                         [](const auto& param) { return param.param; });

TEST(Models, EveryOneEndsInItsClasses) {
  for (const std::string& name : model_names()) {
    StateWalk walk(model_input(name));
    walk.visit(make_model(name, 7), "");
    EXPECT_EQ(walk.channels(), 7) << name;
    EXPECT_EQ(walk.pixels(), 1) << name;
    EXPECT_FALSE(model_summary(name).empty()) << name;
  }
}

TEST(Models, ResNet20HasTwentyLayersWithWeights) {
  StateWalk walk(model_input("resnet20"));
  walk.visit(make_model("resnet20", 10), "");
  int64_t layers = 0;
  for (const std::string& line : walk.lines())
    layers += (line.find("conv") != std::string::npos || line.starts_with("fc.weight")) ? 1 : 0;
  EXPECT_EQ(layers, 20);
}

TEST(Models, LayerNamesAreUnique) {
  for (const std::string& name : model_names()) {
    StateWalk walk(model_input(name));
    walk.visit(make_model(name, 10), "");
    std::vector<std::string> lines = walk.lines();
    std::sort(lines.begin(), lines.end());
    EXPECT_EQ(std::adjacent_find(lines.begin(), lines.end()), lines.end()) << name;
  }
}

TEST(Models, AnUnknownNameIsRefusedWithTheNearest) {
  try {
    make_model("resnet5", 10);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::RecipeError);
    EXPECT_NE(std::string(error.what()).find("did you mean 'resnet"), std::string::npos) << error.what();
  }
  EXPECT_THROW(make_model("mlp", 0), Error);
}

}  // namespace
}  // namespace tr
