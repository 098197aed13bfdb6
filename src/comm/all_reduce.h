/// Reductions between ranks of one process: element i of every rank's array is replaced by the result.
/// Ranks are added in order, so results do not depend on threads.
#pragma once

#include <cstdint>
#include <vector>

namespace tr {

/// Sum of `arrays` times `scale`; scale = 1 / ranks gives the mean.
void all_reduce_sum(const std::vector<float*>& arrays, int64_t elements, float scale);

/// Statistics of equally many samples per rank: the mean of the means; the variance by the
/// parallel-variance formula, mean(var_r + (mean_r − mean)²).
/// Source: T. Chan, G. Golub, R. LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample
/// Variances", 1979.
void all_reduce_statistics(const std::vector<float*>& means, const std::vector<float*>& variances, int64_t elements);

}  // namespace tr
