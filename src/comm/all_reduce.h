/// Reductions between ranks of one process: element i of every rank's array is replaced by the result.
/// Ranks are added in order, so results do not depend on threads.
#pragma once

#include <cstdint>
#include <vector>

namespace tr {

/// Sum of `arrays` times `scale`; scale = 1 / ranks gives the mean.
void all_reduce_sum(const std::vector<float*>& arrays, int64_t elements, float scale);

/// Running statistics of a layer after a step on equally many samples per rank. Each rank has moved them by
/// `momentum` towards its own batch's; the result is as if they had moved towards the whole batch's, by the
/// parallel-variance formula: mean of the means; mean(var_r) + mean((batch_mean_r − batch_mean)²).
/// Source: T. Chan, G. Golub, R. LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample
/// Variances", 1979.
void all_reduce_statistics(const std::vector<float*>& means, const std::vector<float*>& variances, int64_t elements,
                           float momentum);

}  // namespace tr
