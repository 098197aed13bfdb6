#include "graph/lifetimes.h"

#include <algorithm>

#include "renaissance/graph/packing.h"

namespace tr {

namespace {

constexpr std::array<Program, NUM_PROGRAMS> PROGRAMS{Program::TRAIN, Program::EVAL};

bool is_transient(const DTensor& tensor) { return region_traits(tensor.region).transient; }

void require_persistent(const std::vector<RegionRange>& ranges, std::string_view node) {
  for (const RegionRange& range : ranges)
    for (int r = index_of(range.first); r <= index_of(range.last); ++r)
      TR_CHECK(!region_traits(region_at(r)).transient, ValueError,
               cat("'", node, "' covers ", region_name(region_at(r)),
                   "; no range operation may cover a transient region"));
}

/// Every tensor that a node touches.
template <typename Visit>
void for_tensors(const GraphNode& node, Visit visit) {
  for (const NodeOperand& operand : node.operands) visit(operand.id);
  for (const TensorId id : {node.workspace, node.from, node.to})
    if (id != NO_TENSOR) visit(id);
}

class LifetimeFinder {
 public:
  explicit LifetimeFinder(const CompiledModel& model)
      : model_(model),
        plan_(model.plan(Variant::TRAIN_BASE)),
        uses_(static_cast<size_t>(plan_.num_tensors())),
        taken_over_(uses_.size(), false) {}

  std::vector<TransientUse> run() {
    for (const Program program : PROGRAMS) {
      int32_t position = 0;
      for (const GraphNode* node : program_nodes(model_.graph, program)) {
        require_persistent(node->in, node->name);
        require_persistent(node->out, node->name);
        for_tensors(*node, [&](TensorId id) { touch(id, program, position); });
        ++position;
      }
    }
    if (model_.raw_input != NO_TENSOR) use(model_.raw_input).always = true;
    if (model_.request.config.layout == Layout::LINEAR) return std::move(uses_);
    int32_t position = 0;
    for (const GraphNode* node : program_nodes(model_.graph, Program::TRAIN))
      share_in_place(*node, position++);
    return std::move(uses_);
  }

 private:
  TransientUse& use(TensorId id) { return uses_[static_cast<size_t>(id)]; }

  void touch(TensorId id, Program program, int32_t position) {
    if (!is_transient(plan_.tensor(id))) return;
    Lifetime& life = use(id).in(program);
    if (!life.is_used()) life.first = position;
    life.last = position;
  }

  /// Of training alone: evaluation is never what decides how many bytes are needed.
  bool may_take_over(TensorId out, TensorId in, int32_t position) {
    const DTensor &to = plan_.tensor(out), &from = plan_.tensor(in);
    return is_transient(to) && is_transient(from) && to.shape == from.shape && to.dtype == from.dtype &&
           to.slot_bytes == from.slot_bytes && !use(out).in(Program::EVAL).is_used() &&
           !use(in).in(Program::EVAL).is_used() && use(out).in(Program::TRAIN).first == position &&
           use(in).in(Program::TRAIN).last == position && use(out).in_place_of == NO_TENSOR &&
           !taken_over_[static_cast<size_t>(in)];
  }

  void share_in_place(const GraphNode& node, int32_t position) {
    if (node.kind != NodeKind::COMPUTE) return;
    const OpSpec& spec = *model_.ops[static_cast<size_t>(node.op)].entry->spec;
    const auto find = [&](const Use& use) {
      const auto operand =
          std::find_if(node.operands.begin(), node.operands.end(),
                       [&](const NodeOperand& o) { return o.port == use.port && o.index == use.index; });
      return operand == node.operands.end() ? NO_TENSOR : operand->id;
    };
    for (const InPlace& pair : spec.in_place(model_.query(node.op, Variant::TRAIN_BASE), node.pass)) {
      const TensorId out = find(pair.output), in = find(pair.input);
      if (out == NO_TENSOR || in == NO_TENSOR || !may_take_over(out, in, position)) continue;
      use(out).in_place_of = in;
      taken_over_[static_cast<size_t>(in)] = true;
    }
  }

  const CompiledModel& model_;
  const MemoryPlan& plan_;
  std::vector<TransientUse> uses_;
  std::vector<bool> taken_over_;
};

/// Tensors that share bytes from the first to the last of them, as one item.
struct Group {
  TensorId root = NO_TENSOR;
  std::array<Lifetime, NUM_PROGRAMS> life{};
  bool always = false;
};

void extend(Lifetime& life, const Lifetime& by) {
  if (!by.is_used()) return;
  life.first = life.is_used() ? std::min(life.first, by.first) : by.first;
  life.last = std::max(life.last, by.last);
}

constexpr int64_t GOOD_ENOUGH = 1000;  // one part in this above the lower bound
constexpr int64_t MORE_EFFORT = 4;     // searches among up to some 1,200 tensors, for a third of a second

/// Training is the time axis, evaluation follows it; what both need and only evaluation needs together is an
/// extra conflict.
class ZonePacker {
 public:
  ZonePacker(const MemoryPlan& plan, std::vector<TransientUse> uses) : plan_(plan) {
    placement_.uses = std::move(uses);
    TR_CHECK(placement_.uses.size() == plan.tensors().size(), ValueError,
             cat("packing of the transient zone: ", placement_.uses.size(), " lifetimes for ",
                 plan.num_tensors(), " tensors"));
  }

  TransientPlacement run() {
    find_groups();
    PackingProblem problem;
    problem.alignment = ARENA_ALIGNMENT_BYTES;
    const int64_t train_end = end_of(Program::TRAIN), end = train_end + end_of(Program::EVAL);
    for (const Group& group : groups_) {
      const bool trains = group.life[0].is_used();
      const Lifetime& life = group.life[trains ? 0 : 1];
      const int64_t start = trains ? 0 : train_end;
      const int64_t bytes = plan_.tensor(group.root).slot_bytes;
      problem.items.push_back({cat(group.root), group.always ? 0 : start + life.first,
                               group.always ? end : start + life.last + 1, bytes});
    }
    add_conflicts_of_evaluation(problem);
    placement_.offsets.assign(plan_.tensors().size(), -1);
    // What no program touches lies at the zone's beginning, as long as that.
    for (const DTensor& tensor : plan_.tensors()) {
      const auto id = static_cast<size_t>(tensor.id);
      if (!is_transient(tensor)) continue;
      placement_.offsets[id] = 0;
      if (group_of_[id] < 0) placement_.bytes = std::max(placement_.bytes, tensor.slot_bytes);
    }
    if (groups_.empty()) return std::move(placement_);
    Packing packing = pack(problem);
    if (packing.greedy_only && packing.bytes - packing.lower_bound > packing.lower_bound / GOOD_ENOUGH)
      packing = pack(problem, {.effort = MORE_EFFORT});
    validate_packing(problem, packing.offsets);
    placement_.bytes = std::max(placement_.bytes, packing.bytes);
    placement_.lower_bound = std::max(packing.lower_bound, largest_of_evaluation());
    for (size_t id = 0; id < group_of_.size(); ++id)
      if (group_of_[id] >= 0) placement_.offsets[id] = packing.offsets[static_cast<size_t>(group_of_[id])];
    return std::move(placement_);
  }

 private:
  void find_groups() {
    group_of_.assign(placement_.uses.size(), -1);
    // Tensors that no program touches need no bytes; ids rise along a chain of takeovers or not, so roots
    // first.
    for (const DTensor& tensor : plan_.tensors()) {
      const TransientUse& use = placement_.uses[static_cast<size_t>(tensor.id)];
      const bool needed = use.always || use.life[0].is_used() || use.life[1].is_used();
      if (!is_transient(tensor) || !needed || use.in_place_of != NO_TENSOR) continue;
      group_of_[static_cast<size_t>(tensor.id)] = static_cast<int>(groups_.size());
      groups_.push_back({tensor.id, use.life, use.always});
    }
    for (const DTensor& tensor : plan_.tensors()) {
      const TransientUse& use = placement_.uses[static_cast<size_t>(tensor.id)];
      if (use.in_place_of == NO_TENSOR) continue;
      TensorId root = tensor.id;
      while (placement_.uses[static_cast<size_t>(root)].in_place_of != NO_TENSOR)
        root = placement_.uses[static_cast<size_t>(root)].in_place_of;
      const int group = group_of_[static_cast<size_t>(root)];
      group_of_[static_cast<size_t>(tensor.id)] = group;
      for (size_t p = 0; p < NUM_PROGRAMS; ++p)
        extend(groups_[static_cast<size_t>(group)].life[p], use.life[p]);
    }
  }

  int64_t end_of(Program program) const {
    int64_t end = 0;
    for (const Group& group : groups_)
      end = std::max(end, int64_t{group.life[static_cast<size_t>(program)].last} + 1);
    return std::max<int64_t>(end, 1);
  }

  /// visit(group, groups alive when it begins) in the order of evaluation, without those that always are.
  template <typename Visit>
  void walk_evaluation(Visit visit) const {
    std::vector<int> order;
    for (size_t g = 0; g < groups_.size(); ++g)
      if (groups_[g].life[1].is_used() && !groups_[g].always) order.push_back(static_cast<int>(g));
    const auto life = [&](int g) { return groups_[static_cast<size_t>(g)].life[1]; };
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return life(a).first < life(b).first; });
    std::vector<int> alive;
    for (const int g : order) {
      std::erase_if(alive, [&](int other) { return life(other).last < life(g).first; });
      visit(g, alive);
      alive.push_back(g);
    }
  }

  void add_conflicts_of_evaluation(PackingProblem& problem) const {
    walk_evaluation([&](int g, const std::vector<int>& alive) {
      const PackingItem& a = problem.items[static_cast<size_t>(g)];
      for (const int other : alive) {
        const PackingItem& b = problem.items[static_cast<size_t>(other)];
        const bool meet = a.lower < b.upper && b.lower < a.upper;
        if (!meet) problem.extra_conflicts.emplace_back(std::min(g, other), std::max(g, other));
      }
    });
  }

  int64_t largest_of_evaluation() const {
    int64_t largest = 0, always = 0;
    const auto bytes = [&](int g) { return plan_.tensor(groups_[static_cast<size_t>(g)].root).slot_bytes; };
    for (const Group& group : groups_)
      if (group.always) always += plan_.tensor(group.root).slot_bytes;
    walk_evaluation([&](int g, const std::vector<int>& alive) {
      int64_t sum = always + bytes(g);
      for (const int other : alive) sum += bytes(other);
      largest = std::max(largest, sum);
    });
    return largest;
  }

  const MemoryPlan& plan_;
  TransientPlacement placement_;
  std::vector<Group> groups_;
  std::vector<int> group_of_;  ///< by tensor id; −1: no bytes
};

/// Sorted, with what overlaps or touches made one.
std::vector<ByteRange> merged(std::vector<ByteRange> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const ByteRange& a, const ByteRange& b) { return a.offset < b.offset; });
  std::vector<ByteRange> whole;
  for (const ByteRange& range : ranges) {
    if (whole.empty() || range.offset > whole.back().end()) {
      whole.push_back(range);
    } else {
      whole.back().bytes = std::max(whole.back().end(), range.end()) - whole.back().offset;
    }
  }
  return whole;
}

/// The bytes of `ranges` that none of `kept` has.
std::vector<ByteRange> without(std::vector<ByteRange> ranges, std::vector<ByteRange> kept) {
  kept = merged(std::move(kept));
  std::vector<ByteRange> rest;
  for (const ByteRange& range : merged(std::move(ranges))) {
    int64_t cursor = range.offset;
    for (const ByteRange& hole : kept) {
      if (hole.end() <= cursor || hole.offset >= range.end()) continue;
      if (hole.offset > cursor) rest.push_back({cursor, hole.offset - cursor});
      cursor = hole.end();
    }
    if (cursor < range.end()) rest.push_back({cursor, range.end() - cursor});
  }
  return rest;
}

}  // namespace

std::vector<TransientUse> transient_uses(const CompiledModel& model) { return LifetimeFinder(model).run(); }

TransientPlacement place_transients(const MemoryPlan& plan, std::vector<TransientUse> uses) {
  return ZonePacker(plan, std::move(uses)).run();
}

std::vector<std::vector<ByteRange>> dead_bytes(const CompiledModel& model, Program program) {
  const PlanImage& image = model.plan(Variant::TRAIN_BASE).image();
  const size_t nodes = program_nodes(model.graph, program).size();
  // Entry n + 1: the slots that die with node n, and those that live on.
  std::vector<std::vector<ByteRange>> dying(nodes + 1), living(nodes + 1);
  for (const DTensor& tensor : image.tensors) {
    if (!is_transient(tensor)) continue;
    const TransientUse& use = model.uses[static_cast<size_t>(tensor.id)];
    const ByteRange slot{tensor.offset, tensor.slot_bytes};
    dying[0].push_back(slot);
    if (use.always) {
      for (auto& ranges : living) ranges.push_back(slot);
    } else if (const Lifetime& life = use.in(program); life.is_used()) {
      const auto first = static_cast<size_t>(life.first), last = static_cast<size_t>(life.last);
      dying[last + 1].push_back(slot);
      for (size_t node = first; node < last; ++node) living[node + 1].push_back(slot);
    }
  }
  if (image.config.layout == Layout::PACKED) dying[0].push_back({image.zone_base, image.zone_bytes});
  std::vector<std::vector<ByteRange>> dead;
  for (size_t entry = 0; entry <= nodes; ++entry)
    dead.push_back(without(std::move(dying[entry]), std::move(living[entry])));
  return dead;
}

}  // namespace tr
