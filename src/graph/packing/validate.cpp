// The validation of a packing. It shares no code with the packer and reads nothing but the problem and the
// offsets.
#include <algorithm>
#include <limits>
#include <map>

#include "renaissance/core/error.h"
#include "renaissance/graph/packing.h"

namespace tr {

namespace {

std::string describe(const PackingItem& item, int64_t offset) {
  return cat("'", item.name, "' (alive [", item.lower, ", ", item.upper, "), bytes [", offset, ", ",
             offset + item.size, "))");
}

void refuse_overlap(const PackingProblem& problem, std::span<const int64_t> offsets, size_t a, size_t b) {
  throw Error(ErrorKind::ValueError, cat("packing: items ", describe(problem.items[a], offsets[a]), " and ",
                                         describe(problem.items[b], offsets[b]), " share bytes"));
}

struct Event {
  int64_t time;
  bool begins;
  size_t item;
};

/// Deaths before births at the same time, because lifetimes are half open.
std::vector<Event> events(const PackingProblem& problem) {
  std::vector<Event> list;
  for (size_t i = 0; i < problem.items.size(); ++i) {
    list.push_back({problem.items[i].lower, true, i});
    list.push_back({problem.items[i].upper, false, i});
  }
  std::sort(list.begin(), list.end(), [](const Event& a, const Event& b) {
    return a.time != b.time ? a.time < b.time : a.begins < b.begins;
  });
  return list;
}

}  // namespace

void validate_packing(const PackingProblem& problem, std::span<const int64_t> offsets) {
  TR_CHECK(offsets.size() == problem.items.size(), StateError,
           cat("packing: ", offsets.size(), " offsets for ", problem.items.size(), " items"));
  TR_CHECK(problem.alignment >= 1, ValueError,
           cat("packing: alignment is ", problem.alignment, "; expected at least 1"));
  constexpr int64_t LIMIT = std::numeric_limits<int64_t>::max();
  for (size_t i = 0; i < offsets.size(); ++i) {
    const PackingItem& item = problem.items[i];
    TR_CHECK(item.size >= 1 && item.lower < item.upper, ValueError,
             cat("packing: item '", item.name, "' has size ", item.size, " and lives from ", item.lower,
                 " to ", item.upper, "; expected a size of at least 1 and lower < upper"));
    TR_CHECK(offsets[i] >= 0 && offsets[i] <= LIMIT - item.size && offsets[i] % problem.alignment == 0,
             ValueError,
             cat("packing: item '", item.name, "' of ", item.size, " bytes lies at ", offsets[i],
                 "; expected a multiple of ", problem.alignment, " from 0 on"));
  }
  // Those alive by offset; as they do not overlap, a newcomer can only meet the one below it and the one
  // above it.
  std::map<int64_t, size_t> alive;
  for (const Event& event : events(problem)) {
    const int64_t begin = offsets[event.item];
    if (!event.begins) {
      alive.erase(begin);
      continue;
    }
    const auto above = alive.lower_bound(begin);
    if (above != alive.end() && above->first < begin + problem.items[event.item].size)
      refuse_overlap(problem, offsets, above->second, event.item);
    if (above != alive.begin()) {
      const size_t below = std::prev(above)->second;
      if (offsets[below] + problem.items[below].size > begin)
        refuse_overlap(problem, offsets, below, event.item);
    }
    alive.emplace(begin, event.item);
  }
  for (const auto& [first, second] : problem.extra_conflicts) {
    const auto a = static_cast<size_t>(first), b = static_cast<size_t>(second);
    if (offsets[a] < offsets[b] + problem.items[b].size && offsets[b] < offsets[a] + problem.items[a].size)
      refuse_overlap(problem, offsets, a, b);
  }
}

}  // namespace tr
