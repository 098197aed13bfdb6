/// What the pooling operators share: square windows over H and W, P = floor((H + 2*padding - kernel) /
/// stride) + 1; with `ceil`, which only maxpool has, rounded up, the last window reaching over the end.
#pragma once

#include <algorithm>

#include "renaissance/graph/op_spec.h"

namespace tr {

struct PoolAttributes {
  explicit PoolAttributes(const Attributes& attrs)
      : kernel(attrs.integer("kernel")),
        stride(attrs.integer("stride") == 0 ? kernel : attrs.integer("stride")),
        padding(attrs.integer("padding")),
        ceil(attrs.has("ceil") && attrs.flag("ceil")) {}

  static std::vector<AttrSpec> schema() {
    return {{"kernel", std::nullopt, int64_t{1}, "height and width of a window"},
            {"stride", int64_t{0}, int64_t{0}, "step between windows; 0: as kernel"},
            {"padding", int64_t{0}, int64_t{0}, "rows and columns added on each side, at most kernel / 2"}};
  }

  static void check(const Attributes& attrs, const std::string& who) {
    const int64_t kernel = attrs.integer("kernel"), stride = attrs.integer("stride"),
                  padding = attrs.integer("padding");
    TR_CHECK(kernel > 0, ValueError, cat(who, ": kernel is ", kernel, "; it must be at least 1"));
    TR_CHECK(stride >= 0, ValueError,
             cat(who, ": stride is ", stride, "; it must be at least 1, or 0 for the kernel's size"));
    TR_CHECK(padding >= 0 && padding <= kernel / 2, ValueError,
             cat(who, ": padding is ", padding, "; it must be from 0 to half of kernel ", kernel));
  }

  Shape infer(const Shape& x, const std::string& who) const {
    // Compared this way round: a huge kernel must not overflow.
    TR_CHECK(kernel - padding <= x.h() + padding && kernel - padding <= x.w() + padding, ShapeError,
             cat(who, ": kernel ", kernel, " is larger than input ", x, " with padding ", padding,
                 "; use a smaller kernel"));
    return {x.n(), outputs(x.h()), outputs(x.w()), x.c()};
  }

  /// Windows along an axis of `size`.
  int64_t outputs(int64_t size) const {
    const int64_t room = size + 2 * padding - kernel;
    const int64_t whole = room / stride + 1;
    // One more that reaches over the end, unless it would begin in the padding there.
    return ceil && room % stride != 0 && whole * stride < size + padding ? whole + 1 : whole;
  }

  int64_t kernel, stride, padding;
  bool ceil;
};

/// Where windows fall along one axis of `size` inputs and `outputs` outputs.
struct PoolAxis {
  PoolAxis(const PoolAttributes& pool, int64_t axis_size, int64_t axis_outputs)
      : kernel(pool.kernel),
        stride(pool.stride),
        padding(pool.padding),
        size(axis_size),
        outputs(axis_outputs) {}

  /// First input of window `output`; negative in the padding.
  int64_t start(int64_t output) const { return output * stride - padding; }
  int64_t first_input(int64_t output) const { return std::max<int64_t>(start(output), 0); }
  int64_t end_input(int64_t output) const { return std::min(start(output) + kernel, size); }
  bool inside(int64_t output) const { return start(output) >= 0 && start(output) + kernel <= size; }
  /// The windows that hold an input are first_output … end_output - 1.
  int64_t first_output(int64_t input) const {
    const int64_t past = input + padding - kernel;
    return past < 0 ? 0 : past / stride + 1;
  }
  int64_t end_output(int64_t input) const { return std::min((input + padding) / stride + 1, outputs); }

  int64_t kernel, stride, padding, size, outputs;
};

}  // namespace tr
