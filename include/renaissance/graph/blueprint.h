/// What the user wrote: operators, sequences, repeats, residual blocks. A plain value.
///
///   BluePrint net = seq(conv(64, 3, 1, 1), bn(), relu(), gap(), flatten(), fc(10));
///
/// Names follow PyTorch's Sequential: an unnamed child is called by its index, names of nested blocks
/// are joined by dots, so `named("layer1", seq(named("conv1", conv(…))))` has `layer1.conv1.weight`. A child
/// called "." has no level of its own: its children are named in its parent's.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "renaissance/core/types.h"

namespace tr {

using AttrValue = std::variant<bool, int64_t, double, std::string>;

/// Named attributes of one operator, in the order they were set.
class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<std::string, AttrValue>> items);

  bool has(std::string_view name) const { return find(name) != nullptr; }
  void set(std::string_view name, AttrValue value);
  /// Throw ValueError when absent or of another type; an integer reads as a double too.
  bool flag(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  const std::string& text(std::string_view name) const;

  const std::vector<std::pair<std::string, AttrValue>>& items() const { return items_; }
  friend bool operator==(const Attributes&, const Attributes&) = default;

 private:
  const AttrValue* find(std::string_view name) const;
  std::vector<std::pair<std::string, AttrValue>> items_;
};
std::string str(const AttrValue& value);

struct BluePrint {
  enum class Kind : uint8_t { OP, SEQ, RESIDUAL, BRANCHES };
  Kind kind = Kind::SEQ;
  std::string name;  ///< empty: the index among its siblings
  std::string op;    ///< the operator's name in the catalogue; BRANCHES: of what joins them
  Attributes attrs;  ///< OP: what was given; defaults come from the operator's schema
  /// SEQ: in order. RESIDUAL: body, then optionally the projection. BRANCHES: the inputs of `op`, in order
  std::vector<BluePrint> children;
  std::string where;  ///< place in the file it came from, for errors; may be empty

  /// Of the networks described: `where` does not count.
  friend bool operator==(const BluePrint& a, const BluePrint& b);
};

struct ConvOptions {
  bool bias = true;
  int64_t groups = 1;
  int64_t dilation = 1;
  bool linear = false;  ///< of a 1×1 kernel: a state_dict has its weight as [out, in]
};

BluePrint op(std::string_view name, Attributes attrs = {});
BluePrint conv(int64_t out_channels, int64_t kernel, int64_t stride = 1, int64_t padding = 0,
               const ConvOptions& options = {});
BluePrint bn(double momentum = 0.1, double epsilon = 1e-5);
BluePrint relu();
BluePrint leaky_relu(double negative_slope = 0.01);
BluePrint sigmoid();
BluePrint tanh();
BluePrint silu();
BluePrint hardswish();
BluePrint hardsigmoid();
BluePrint relu6();
BluePrint elu(double alpha = 1.0);
/// approximate: "none", or "tanh" for the formula of GPT-2 and others.
BluePrint gelu(std::string approximate = "none");
/// Over the channels of each pixel.
BluePrint layer_norm(double epsilon = 1e-6);
/// The parameter has the layer's own name.
BluePrint layer_scale(double init = 1e-6);
/// mode: "row" drops each sample by itself, "batch" all or none.
BluePrint stochastic_depth(double probability, std::string mode = "row");
/// `ceil`: a last window may reach over the end.
BluePrint maxpool(int64_t kernel, int64_t stride, int64_t padding = 0, bool ceil = false);
BluePrint avgpool(int64_t kernel, int64_t stride, int64_t padding = 0);
/// To `size` × `size`, whatever comes in.
BluePrint adaptive_avgpool(int64_t size);
BluePrint gap();
BluePrint flatten();
BluePrint fc(int64_t out_features, bool bias = true);
BluePrint dropout(double probability = 0.5);
BluePrint identity();

BluePrint seq(std::vector<BluePrint> children);
template <typename... Children>
BluePrint seq(Children... children) {
  return seq(std::vector<BluePrint>{std::move(children)...});
}
/// `child` n times in a row, with parameters of its own each time; children named 0 … n−1.
BluePrint repeat(int64_t times, const BluePrint& child);
/// body(x) + x, or body(x) + projection(x). A SEQ body's children take names directly in the block;
/// the projection's are under "downsample", as in torchvision's blocks. ReLU after it is the user's.
BluePrint residual(BluePrint body, std::optional<BluePrint> projection = std::nullopt);
/// Every child takes the block's input; `join`, an operator of as many inputs (concat, channel_scale, add),
/// makes one output of theirs. Children are named as in a seq; identity() passes the input itself on.
///   branches("concat", {identity(), seq(bn(), relu(), conv(32, 3, 1, 1))})
BluePrint branches(std::string_view join, std::vector<BluePrint> children);
BluePrint named(std::string name, BluePrint child);
/// `child` as part of its parent's level.
BluePrint without_level(BluePrint child);
inline constexpr std::string_view NO_LEVEL = ".";

}  // namespace tr
