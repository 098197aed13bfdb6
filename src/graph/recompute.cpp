#include "graph/recompute.h"

#include <algorithm>
#include <utility>

#include "renaissance/core/error.h"

namespace tr {

namespace {

using Kind = TensorRef::Kind;

/// The node that computes the output of `forward` once more.
WiredNode recomputing_node(const WiredNode& forward, const OpSpec& spec, const OpQuery& query) {
  WiredNode node = forward;
  node.part = GraphId::BACKWARD;
  node.recomputes = true;
  node.pass = spec.recompute_pass();
  if (node.pass == Pass::FORWARD) return node;
  node.operands.clear();
  for (const Use& use : spec.uses(query, node.pass)) {
    const auto known =
        std::find_if(forward.operands.begin(), forward.operands.end(), [&](const WiredOperand& operand) {
          return operand.use.port == use.port && operand.use.index == use.index;
        });
    TR_CHECK(known != forward.operands.end(), ValueError,
             cat("'", query.layer, "': recomputation uses ", port_name(use.port), '[', use.index,
                 "], which forward does not know"));
    node.operands.push_back({use, known->ref});
  }
  return node;
}

/// For each value, the forward node that writes it; −1 for none.
std::vector<int> writers_of(const Wiring& wiring, int num_values) {
  std::vector<int> writers(static_cast<size_t>(num_values), -1);
  for (size_t n = 0; n < wiring.nodes.size(); ++n) {
    const WiredNode& node = wiring.nodes[n];
    if (node.part != GraphId::FORWARD) continue;
    for (const WiredOperand& operand : node.operands)
      if (operand.use.port == Port::Y && operand.ref.kind == Kind::VALUE)
        writers[static_cast<size_t>(operand.ref.owner)] = static_cast<int>(n);
  }
  return writers;
}

/// Dense numbers for the transient tensors of a wiring.
class RefNumbers {
 public:
  explicit RefNumbers(const RecomputeProblem& problem) : values_(problem.arch->num_values()) {
    const auto& ops = problem.wiring->ops;
    grads_ = 2 * values_;
    saved_ = grads_ + static_cast<int>(problem.wiring->grad_values.size());
    for (size_t op = 0; op < ops.size(); ++op) {
      first_saved_.push_back(total_saved_);
      total_saved_ +=
          static_cast<int>(ops[op].entry->spec->saved(problem.query(static_cast<int>(op))).size());
    }
    statistics_ = saved_ + total_saved_;
    labels_ = statistics_ + static_cast<int>(ops.size());
  }
  int size() const { return labels_ + 1; }
  int labels() const { return labels_; }
  int recomputed(ValueId value) const { return values_ + value; }
  int of(const TensorRef& ref) const {
    switch (ref.kind) {
      case Kind::VALUE:
        return ref.owner;
      case Kind::RECOMPUTED:
        return values_ + ref.owner;
      case Kind::GRAD:
        return grads_ + ref.owner;
      case Kind::SAVED:
        return saved_ + first_saved_[static_cast<size_t>(ref.owner)] + ref.index;
      case Kind::STATISTICS:
        return statistics_ + ref.owner;
      default:
        return labels_;
    }
  }

 private:
  int values_, grads_ = 0, saved_ = 0, statistics_ = 0, labels_ = 0, total_saved_ = 0;
  std::vector<int> first_saved_;
};

constexpr int64_t MOST_WORK = 20'000'000;  // nodes that may be looked at for one choice: about a second

}  // namespace

NodeCost& NodeCost::operator+=(const NodeCost& other) {
  bytes += other.bytes;
  flops += other.flops;
  time += other.time;
  return *this;
}

/// The training step as numbers, and the memory of it for any set of dropped values.
class RecomputePlanner::Search {
 public:
  explicit Search(const RecomputeProblem& problem);

  RecomputeChoice nothing();
  RecomputeChoice within(int64_t limit_bytes, bool cheap);
  RecomputeChoice fewest_bytes(double most_added_time, bool cheap);

 private:
  struct Step {
    std::vector<int> tensors;                   ///< transient ones, by number
    std::vector<ValueId> values;                ///< feature maps among them that it reads
    std::vector<std::pair<int, int>> in_place;  ///< output, input
    int64_t workspace_bytes = 0;
    NodeCost cost;
  };

  Step make_step(const RecomputeProblem& problem, const WiredNode& node) const;
  void run_step(const Step& step, bool backward);
  void recompute(ValueId value);
  /// Runs the step with dropped_ and fills all that is declared after it.
  void evaluate();
  int64_t excess(int64_t limit) const;
  int number_in(int tensor, bool backward) const {
    return backward && tensor < num_values_ && dropped_[static_cast<size_t>(tensor)] ? tensor + num_values_
                                                                                     : tensor;
  }
  bool is_candidate(ValueId value, bool cheap) const;
  RecomputeChoice result() const;
  void drop_while_too_much(int64_t limit, bool cheap);
  std::vector<ValueId> candidates(int64_t limit, bool cheap, const std::vector<bool>& refused) const;
  bool drop_one(int64_t limit, bool cheap, int64_t& too_much, std::vector<bool>& refused);
  bool keep_one(int64_t limit, int64_t& too_much);
  void take_back(int64_t limit);

  RefNumbers numbers_;
  int num_values_;
  std::vector<int64_t> bytes_;  ///< by number
  std::vector<Step> forward_, backward_;
  std::vector<Step> again_;     ///< by value: what computes it once more
  std::vector<bool> can_drop_;  ///< by value
  NodeCost step_cost_;
  int64_t always_bytes_;
  int64_t work_left_ = MOST_WORK;

  std::vector<bool> dropped_;                       ///< by value
  std::vector<bool> done_;                          ///< by value
  std::vector<const Step*> runs_;                   ///< in order, recomputation included
  std::vector<int> first_, last_;                   ///< by number, positions in runs_
  std::vector<int> last_forward_, first_backward_;  ///< by value
  std::vector<int64_t> live_;
  int64_t peak_ = 0;
  NodeCost added_;
};

RecomputePlanner::Search::Search(const RecomputeProblem& problem)
    : numbers_(problem),
      num_values_(problem.arch->num_values()),
      bytes_(static_cast<size_t>(numbers_.size()), 0),
      again_(static_cast<size_t>(num_values_)),
      can_drop_(static_cast<size_t>(num_values_), false),
      always_bytes_(problem.always_bytes),
      dropped_(static_cast<size_t>(num_values_), false) {
  const Wiring& wiring = *problem.wiring;
  std::vector<bool> backward_reads(static_cast<size_t>(num_values_), false);
  for (const WiredNode& node : wiring.nodes) {
    if (node.part == GraphId::INFERENCE) continue;
    for (const WiredOperand& operand : node.operands)
      if (problem.is_transient(operand.ref))
        bytes_[static_cast<size_t>(numbers_.of(operand.ref))] = problem.slot_bytes(operand.ref);
    Step step = make_step(problem, node);
    step_cost_ += step.cost;
    if (node.part == GraphId::BACKWARD)
      for (const ValueId value : step.values) backward_reads[static_cast<size_t>(value)] = true;
    (node.part == GraphId::FORWARD ? forward_ : backward_).push_back(std::move(step));
  }
  const std::vector<int> writers = writers_of(wiring, num_values_);
  for (ValueId value = 1; value < num_values_; ++value) {
    const auto v = static_cast<size_t>(value);
    bytes_[static_cast<size_t>(numbers_.recomputed(value))] = bytes_[v];
    if (writers[v] < 0 || !backward_reads[v]) continue;
    const WiredNode& writer = wiring.nodes[static_cast<size_t>(writers[v])];
    const OpSpec& spec = *wiring.ops[static_cast<size_t>(writer.op)].entry->spec;
    again_[v] = make_step(problem, recomputing_node(writer, spec, problem.query(writer.op)));
    can_drop_[v] = true;
  }
}

RecomputePlanner::Search::Step RecomputePlanner::Search::make_step(const RecomputeProblem& problem,
                                                                   const WiredNode& node) const {
  Step step;
  const OpSpec& spec = *problem.wiring->ops[static_cast<size_t>(node.op)].entry->spec;
  const OpQuery query = problem.query(node.op);
  const auto number = [&](const Use& use) {
    for (const WiredOperand& operand : node.operands)
      if (operand.use.port == use.port && operand.use.index == use.index && problem.is_transient(operand.ref))
        return numbers_.of(operand.ref);
    return -1;
  };
  for (const WiredOperand& operand : node.operands) {
    if (operand.ref.kind == Kind::BASELINE && !problem.is_transient(operand.ref)) continue;
    const int64_t moves = (operand.use.read ? 1 : 0) + (operand.use.write ? 1 : 0);
    step.cost.bytes += moves * problem.slot_bytes(operand.ref);
    if (!problem.is_transient(operand.ref)) continue;
    const int tensor = numbers_.of(operand.ref);
    step.tensors.push_back(tensor);
    if (operand.ref.kind == Kind::VALUE && operand.use.read) step.values.push_back(operand.ref.owner);
  }
  step.cost.flops = spec.flops(query, node.pass);
  step.cost.time = std::max(static_cast<double>(step.cost.bytes),
                            static_cast<double>(step.cost.flops) / problem.flops_per_byte);
  step.workspace_bytes = problem.workspace_bytes(node.op, node.pass);
  if (node.part == GraphId::BACKWARD && !node.recomputes)
    for (const InPlace& pair : spec.in_place(query, node.pass)) {
      const int out = number(pair.output), in = number(pair.input);
      if (out >= 0 && in >= 0 && bytes_[static_cast<size_t>(out)] == bytes_[static_cast<size_t>(in)])
        step.in_place.emplace_back(out, in);
    }
  return step;
}

void RecomputePlanner::Search::run_step(const Step& step, bool backward) {
  const int position = static_cast<int>(runs_.size());
  runs_.push_back(&step);
  for (const int tensor : step.tensors) {
    const auto t = static_cast<size_t>(number_in(tensor, backward));
    if (first_[t] < 0) first_[t] = position;
    last_[t] = position;
    if (tensor >= num_values_) continue;
    const auto v = static_cast<size_t>(tensor);
    if (!backward)
      last_forward_[v] = position;
    else if (first_backward_[v] < 0)
      first_backward_[v] = position;
  }
}

/// As deep as values that only dropped ones lead to.
void RecomputePlanner::Search::recompute(ValueId value) {
  const auto v = static_cast<size_t>(value);
  if (!dropped_[v] || done_[v]) return;
  done_[v] = true;
  for (const ValueId input : again_[v].values) recompute(input);
  run_step(again_[v], true);
  added_ += again_[v].cost;
}

void RecomputePlanner::Search::evaluate() {
  runs_.clear();
  first_.assign(bytes_.size(), -1);
  last_.assign(bytes_.size(), -1);
  last_forward_.assign(static_cast<size_t>(num_values_), -1);
  first_backward_.assign(static_cast<size_t>(num_values_), -1);
  done_.assign(static_cast<size_t>(num_values_), false);
  added_ = {};
  for (const Step& step : forward_) run_step(step, false);
  for (const Step& step : backward_) {
    for (const ValueId value : step.values) recompute(value);
    run_step(step, true);
  }
  // The labels are copied before the first of these steps.
  if (int& first = first_[static_cast<size_t>(numbers_.labels())]; first > 0) first = 0;
  live_.assign(runs_.size() + 1, 0);
  live_[0] = always_bytes_;
  std::vector<bool> takes_over(bytes_.size(), false), taken(bytes_.size(), false);
  for (size_t p = 0; p < runs_.size(); ++p) {
    live_[p] += runs_[p]->workspace_bytes;
    live_[p + 1] -= runs_[p]->workspace_bytes;
    for (const auto& [out, in] : runs_[p]->in_place) {
      const auto o = static_cast<size_t>(out), i = static_cast<size_t>(in);
      if (first_[o] != static_cast<int>(p) || last_[i] != static_cast<int>(p) || takes_over[o] || taken[i])
        continue;
      takes_over[o] = taken[i] = true;
    }
  }
  for (size_t t = 0; t < bytes_.size(); ++t) {
    if (first_[t] < 0 || bytes_[t] == 0) continue;
    live_[static_cast<size_t>(first_[t]) + (takes_over[t] ? 1 : 0)] += bytes_[t];
    live_[static_cast<size_t>(last_[t]) + 1] -= bytes_[t];
  }
  for (size_t p = 1; p < live_.size(); ++p) live_[p] += live_[p - 1];
  live_.pop_back();
  peak_ = live_.empty() ? 0 : *std::max_element(live_.begin(), live_.end());
  work_left_ -= static_cast<int64_t>(runs_.size());
}

int64_t RecomputePlanner::Search::excess(int64_t limit) const {
  int64_t sum = 0;
  for (const int64_t live : live_) sum += std::max<int64_t>(live - limit, 0);
  return sum;
}

bool RecomputePlanner::Search::is_candidate(ValueId value, bool cheap) const {
  const auto v = static_cast<size_t>(value);
  return can_drop_[v] && !dropped_[v] && first_backward_[v] > last_forward_[v] + 1 &&
         (!cheap || again_[v].cost.flops == 0);
}

/// Drops the value whose absence helps most for its cost, as long as that helps. Where nothing does, one that
/// was dropped may be kept after all: a checkpoint, so that not everything is computed again at once.
void RecomputePlanner::Search::drop_while_too_much(int64_t limit, bool cheap) {
  evaluate();
  int64_t too_much = excess(limit);
  std::vector<bool> refused(static_cast<size_t>(num_values_), false);
  while (too_much > 0 && work_left_ > 0) {
    if (drop_one(limit, cheap, too_much, refused)) continue;
    if (!keep_one(limit, too_much)) break;
    refused.assign(refused.size(), false);
  }
  evaluate();
}

/// By what they save where too much is alive, per added time; the best first.
std::vector<ValueId> RecomputePlanner::Search::candidates(int64_t limit, bool cheap,
                                                          const std::vector<bool>& refused) const {
  // Sums over positions, so that a gap's share of the excess takes no walk.
  std::vector<int64_t> over(live_.size() + 1, 0), count(live_.size() + 1, 0);
  for (size_t p = 0; p < live_.size(); ++p) {
    over[p + 1] = over[p] + std::max<int64_t>(live_[p] - limit, 0);
    count[p + 1] = count[p] + (live_[p] > limit ? 1 : 0);
  }
  std::vector<std::pair<double, ValueId>> found;
  for (ValueId value = 1; value < num_values_; ++value) {
    const auto v = static_cast<size_t>(value);
    if (refused[v] || !is_candidate(value, cheap)) continue;
    const auto begin = static_cast<size_t>(last_forward_[v]) + 1,
               end = static_cast<size_t>(first_backward_[v]);
    const int64_t helps = std::min(over[end] - over[begin], bytes_[v] * (count[end] - count[begin]));
    if (helps > 0) found.emplace_back(-static_cast<double>(helps) / again_[v].cost.time, value);
  }
  std::sort(found.begin(), found.end());
  std::vector<ValueId> values;
  for (const auto& [rank, value] : found) values.push_back(value);
  return values;
}

bool RecomputePlanner::Search::drop_one(int64_t limit, bool cheap, int64_t& too_much,
                                        std::vector<bool>& refused) {
  for (const ValueId value : candidates(limit, cheap, refused)) {
    const auto v = static_cast<size_t>(value);
    dropped_[v] = true;
    evaluate();
    if (const int64_t left = excess(limit); left < too_much) {
      too_much = left;
      return true;
    }
    dropped_[v] = false;
    refused[v] = true;
    if (work_left_ <= 0) break;
  }
  evaluate();
  return false;
}

bool RecomputePlanner::Search::keep_one(int64_t limit, int64_t& too_much) {
  size_t best = 0;
  for (size_t v = 1; v < dropped_.size() && work_left_ > 0; ++v) {
    if (!dropped_[v]) continue;
    dropped_[v] = false;
    evaluate();
    if (const int64_t left = excess(limit); left < too_much) {
      too_much = left;
      best = v;
    }
    dropped_[v] = true;
  }
  if (best != 0) dropped_[best] = false;
  evaluate();
  return best != 0;
}

/// What turned out not to be needed, the costliest first.
void RecomputePlanner::Search::take_back(int64_t limit) {
  std::vector<ValueId> values;
  for (ValueId value = 1; value < num_values_; ++value)
    if (dropped_[static_cast<size_t>(value)]) values.push_back(value);
  std::stable_sort(values.begin(), values.end(), [&](ValueId a, ValueId b) {
    return again_[static_cast<size_t>(a)].cost.time > again_[static_cast<size_t>(b)].cost.time;
  });
  for (const ValueId value : values) {
    if (work_left_ <= 0) break;
    const auto v = static_cast<size_t>(value);
    dropped_[v] = false;
    evaluate();
    if (peak_ > limit) dropped_[v] = true;
  }
  evaluate();
}

RecomputeChoice RecomputePlanner::Search::result() const {
  RecomputeChoice choice;
  for (ValueId value = 1; value < num_values_; ++value)
    if (done_[static_cast<size_t>(value)]) choice.values.push_back(value);
  choice.peak_bytes = peak_;
  choice.added = added_;
  choice.step = step_cost_;
  return choice;
}

RecomputeChoice RecomputePlanner::Search::nothing() {
  dropped_.assign(dropped_.size(), false);
  evaluate();
  return result();
}

RecomputeChoice RecomputePlanner::Search::within(int64_t limit_bytes, bool cheap) {
  dropped_.assign(dropped_.size(), false);
  work_left_ = MOST_WORK;
  drop_while_too_much(limit_bytes, cheap);
  if (peak_ <= limit_bytes) {
    take_back(limit_bytes);
    return result();
  }
  return fewest_bytes(ANY_TIME, cheap);
}

/// By halving.
RecomputeChoice RecomputePlanner::Search::fewest_bytes(double most_added_time, bool cheap) {
  constexpr int HALVINGS = 12;
  RecomputeChoice best = nothing();
  int64_t low = always_bytes_, high = peak_;
  for (int i = 0; i < HALVINGS && low < high; ++i) {
    const int64_t limit = low + (high - low) / 2;
    // Each halving has its share, or the first ones would leave nothing to the others.
    work_left_ = MOST_WORK / HALVINGS;
    dropped_.assign(dropped_.size(), false);
    drop_while_too_much(limit, cheap);
    take_back(std::max(limit, peak_));
    const RecomputeChoice choice = result();
    const bool affordable = choice.added_time() <= most_added_time;
    const bool better = choice.peak_bytes < best.peak_bytes ||
                        (choice.peak_bytes == best.peak_bytes && choice.added.time < best.added.time);
    if (affordable && better) best = choice;
    if (affordable && choice.peak_bytes <= limit)
      high = choice.peak_bytes;
    else
      low = limit + 1;
  }
  return best;
}

RecomputePlanner::RecomputePlanner(const RecomputeProblem& problem)
    : search_(std::make_unique<Search>(problem)) {}
RecomputePlanner::~RecomputePlanner() = default;

RecomputeChoice RecomputePlanner::nothing() { return search_->nothing(); }
RecomputeChoice RecomputePlanner::within(int64_t limit_bytes, bool cheap) {
  return search_->within(limit_bytes, cheap);
}
RecomputeChoice RecomputePlanner::fewest_bytes(double most_added_time, bool cheap) {
  return search_->fewest_bytes(most_added_time, cheap);
}

void insert_recomputation(Wiring& wiring, const std::vector<ValueId>& values,
                          const std::function<OpQuery(int op)>& query) {
  int num_values = 0;
  for (const OpInstance& op : wiring.ops) num_values = std::max(num_values, op.output + 1);
  std::vector<bool> dropped(static_cast<size_t>(num_values), false), done(dropped);
  for (const ValueId value : values) dropped[static_cast<size_t>(value)] = true;
  const std::vector<int> writers = writers_of(wiring, num_values);
  std::vector<WiredNode> nodes;

  const auto redirect = [&](WiredNode& node) {
    for (WiredOperand& operand : node.operands)
      if (operand.ref.kind == Kind::VALUE && dropped[static_cast<size_t>(operand.ref.owner)])
        operand.ref.kind = Kind::RECOMPUTED;
  };
  const std::function<void(ValueId)> recompute = [&](ValueId value) {
    const auto v = static_cast<size_t>(value);
    if (!dropped[v] || done[v]) return;
    done[v] = true;
    const WiredNode& writer = wiring.nodes[static_cast<size_t>(writers[v])];
    WiredNode node =
        recomputing_node(writer, *wiring.ops[static_cast<size_t>(writer.op)].entry->spec, query(writer.op));
    for (const WiredOperand& operand : node.operands)
      if (operand.ref.kind == Kind::VALUE && operand.use.read) recompute(operand.ref.owner);
    redirect(node);
    nodes.push_back(std::move(node));
  };
  for (const WiredNode& node : wiring.nodes) {
    if (node.part != GraphId::BACKWARD) {
      nodes.push_back(node);
      continue;
    }
    for (const WiredOperand& operand : node.operands)
      if (operand.ref.kind == Kind::VALUE && operand.use.read) recompute(operand.ref.owner);
    nodes.push_back(node);
    redirect(nodes.back());
  }
  wiring.nodes = std::move(nodes);
  wiring.recomputed = values;
}

}  // namespace tr
