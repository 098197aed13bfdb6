/// Weight and bias gradient of an ungrouped convolution on NHWC data, in register tiles.
///   dw[k][r][s][c] = sum over n, p, q of dy[n][p][q][k] * x[n][p*stride + r*dilation - padding][...][c]
/// A block of rows or images is packed (x zero-padded in slices of LANES channels, dy in slices of ROWS
/// channels); then every thread owns tiles of dw and runs over all pixels of the block. So no partial sums
/// exist, and the result does not depend on the number of threads. The scheme is that of GotoBLAS: "Anatomy
/// of High-Performance Matrix Multiplication", https://doi.org/10.1145/1356052.1356053
#pragma once

#include "ops/conv/conv.h"

namespace tr {

class ConvWeightGradient {
 public:
  /// Whether it pays and channels fill whole vectors; there are no remainder loops.
  static bool fits(const ConvAttributes& conv, const Shape& x);

  ConvWeightGradient(const ConvAttributes& conv, const Shape& x, const Shape& y);
  int64_t workspace_bytes() const;
  /// `db` may be null.
  Call bind(const float* x, const float* dy, float* dw, float* db, std::byte* workspace) const;

 private:
  struct Block;
  struct Run;

  int64_t kernel_, stride_, padding_, dilation_;
  Shape x_, y_;
  int64_t width_;  ///< of the padded map that windows touch
  int64_t images_per_block_, rows_per_block_;
  int64_t padded_rows_;  ///< that the windows of rows_per_block_ touch
};

}  // namespace tr
