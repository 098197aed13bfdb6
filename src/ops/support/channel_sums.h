/// Sums over the rows of a [rows, channels] map for each channel, on the CPU: FP32 over 32 rows, then double,
/// in pieces that the map alone decides, so that the number of threads changes no bit.
#pragma once

#include <algorithm>

#include "core/parallel.h"
#include "ops/support/workspace.h"

namespace tr {

class ChannelSums {
 public:
  /// `sums` different ones for each channel. In offer() and in prepare() with the same arguments.
  ChannelSums(int64_t rows, int64_t channels, int64_t sums, WorkspaceSlices& slices)
      : rows_(rows),
        columns_(sums * channels),
        pieces_(std::min(rows, fixed_chunks(rows * channels, LEAST_ITEMS))),
        totals_(take<double>(slices)),
        blocks_(take<float>(slices)) {}

  /// add_row(row, block) adds the row's terms to block[sum * channels + channel]; every row is visited once.
  /// Then finish(i, total) for each of the sums * channels places.
  template <typename AddRow, typename Finish>
  void run(AddRow add_row, Finish finish) const {
#pragma omp parallel for schedule(static) if (pieces_ > 1)
    for (int64_t piece = 0; piece < pieces_; ++piece) sum_piece(piece, add_row);
    for (int64_t i = 0; i < columns_; ++i) {
      double total = 0.0;
      for (int64_t piece = 0; piece < pieces_; ++piece) total += totals_[piece * columns_ + i];
      finish(i, static_cast<float>(total));
    }
  }

 private:
  static constexpr int64_t LEAST_ITEMS = 1 << 14;
  static constexpr int64_t BLOCK_ROWS = 32;

  template <typename T>
  T* take(WorkspaceSlices& slices) const {
    return reinterpret_cast<T*>(slices.take(pieces_ * columns_ * static_cast<int64_t>(sizeof(T))));
  }

  template <typename AddRow>
  void sum_piece(int64_t piece, AddRow& add_row) const {
    double* total = totals_ + piece * columns_;
    float* block = blocks_ + piece * columns_;
    const int64_t end = rows_ * (piece + 1) / pieces_;
    std::fill_n(total, columns_, 0.0);
    for (int64_t first = rows_ * piece / pieces_; first < end; first += BLOCK_ROWS) {
      std::fill_n(block, columns_, 0.0f);
      for (int64_t row = first; row < std::min(end, first + BLOCK_ROWS); ++row) add_row(row, block);
#pragma omp simd
      for (int64_t i = 0; i < columns_; ++i) total[i] += double{block[i]};
    }
  }

  int64_t rows_, columns_, pieces_;
  double* totals_;
  float* blocks_;
};

/// body(row) for all rows in parallel; rows do not depend on each other.
template <typename Body>
void parallel_rows(int64_t rows, int64_t row_items, Body body) {
  const int64_t pieces = std::min(rows, fixed_chunks(rows * row_items, 1 << 14));
#pragma omp parallel for schedule(static) if (pieces > 1)
  for (int64_t piece = 0; piece < pieces; ++piece)
    for (int64_t row = rows * piece / pieces; row < rows * (piece + 1) / pieces; ++row) body(row);
}

}  // namespace tr
