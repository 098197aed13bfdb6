#include "range_ops/training_tail.h"

#include <algorithm>

namespace tr {

namespace {

bool covers(const RegionRange& outer, const RegionRange& inner) {
  return outer.first <= inner.first && inner.last <= outer.last;
}

/// Takes nodes off the front of a list while they are what is asked for.
class Cursor {
 public:
  explicit Cursor(std::span<const GraphNode* const> nodes) : nodes_(nodes) {}

  template <typename Wanted>
  const GraphNode* take(const Wanted& wanted) {
    if (taken_ == nodes_.size() || !wanted(*nodes_[taken_])) return nullptr;
    return nodes_[taken_++];
  }
  const GraphNode* take(RangeOp op) {
    return take([op](const GraphNode& node) { return node.range_op == op; });
  }
  size_t taken() const { return taken_; }

 private:
  std::span<const GraphNode* const> nodes_;
  size_t taken_ = 0;
};

bool fits_together(const TrainingTail& tail) {
  const RegionRange& checked = tail.check->in.at(0);
  const auto reads = [&](const RegionRange& gradients) {
    return std::ranges::any_of(tail.updates,
                               [&](const GraphNode* u) { return same_regions(u->in.at(0), gradients); });
  };
  if (tail.gradient_cast != nullptr) {
    const RegionRange& cast = tail.gradient_cast->out.at(0);
    if (!reads(cast) || cast.first <= checked.first || cast.last != checked.last) return false;
  }
  if (tail.trust != nullptr && !same_regions(tail.trust->in.at(0), tail.updates[1]->in.at(0))) return false;
  const auto takes_all = [&](const GraphNode* node) {
    return node == nullptr || same_regions(node->out.at(0), checked);
  };
  if (!takes_all(tail.scaling) || !takes_all(tail.clip)) return false;
  return (tail.scaling == nullptr && tail.clip == nullptr) ||
         std::ranges::all_of(tail.updates, [&](const GraphNode* u) { return covers(checked, u->in.at(0)); });
}

}  // namespace

bool same_regions(const RegionRange& a, const RegionRange& b) {
  return a.first == b.first && a.last == b.last;
}

std::optional<TrainingTail> match_training_tail(std::span<const GraphNode* const> nodes) {
  Cursor cursor(nodes);
  TrainingTail tail;
  tail.gradient_cast = cursor.take(RangeOp::RANGE_CAST_FP16_TO_FP32);
  tail.check = cursor.take(RangeOp::RANGE_CHECK_NAN);
  if (tail.check == nullptr) return std::nullopt;
  tail.scaling = cursor.take(RangeOp::RANGE_GRAD_SCALING);
  tail.clip = cursor.take(RangeOp::RANGE_CLIP_NORM);
  tail.advance = cursor.take(RangeOp::RANGE_ADVANCE_SCALARS);
  if (tail.advance == nullptr) return std::nullopt;
  tail.trust = cursor.take(RangeOp::RANGE_TRUST_RATIOS);
  for (const GraphNode*& update : tail.updates) {
    update = cursor.take([](const GraphNode& node) { return is_update(node.range_op); });
    if (update == nullptr) return std::nullopt;
  }
  if (!fits_together(tail)) return std::nullopt;
  tail.weight_cast = cursor.take([&](const GraphNode& node) {
    return node.range_op == RangeOp::RANGE_CAST_FP32_TO_FP16 &&
           std::ranges::any_of(tail.updates,
                               [&](const GraphNode* u) { return same_regions(u->out.at(0), node.in.at(0)); });
  });
  tail.average = cursor.take(RangeOp::RANGE_EMA_PARAM_UPDATE);
  tail.statistics = cursor.take([](const GraphNode& node) {
    return node.range_op == RangeOp::RANGE_D2D_COPY && node.from == NO_TENSOR && node.only_when_clean;
  });
  tail.metrics = cursor.take(RangeOp::RANGE_ACCUM_METRICS);
  tail.nodes = cursor.taken();
  return tail;
}

}  // namespace tr
