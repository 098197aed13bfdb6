#include "graph/packing/sections.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "renaissance/core/error.h"

namespace tr::packing {

namespace {

constexpr int64_t TOO_MANY_BYTES = int64_t{1} << 62;

int64_t rounded_size(const PackingItem& item, int64_t alignment) {
  TR_CHECK(
      item.size >= 1, ValueError,
      cat("packing: item '", item.name, "' has size ", item.size, "; expected at least 1; leave it out"));
  TR_CHECK(item.size < TOO_MANY_BYTES, ValueError,
           cat("packing: item '", item.name, "' has size ", item.size, "; expected less than 2^62"));
  return (item.size - 1) / alignment * alignment + alignment;
}

void check(const PackingProblem& problem) {
  TR_CHECK(problem.alignment >= 1 && problem.alignment <= int64_t{1} << 32, ValueError,
           cat("packing: alignment is ", problem.alignment, "; expected 1 to 2^32"));
  TR_CHECK(problem.items.size() <= size_t{std::numeric_limits<int32_t>::max()}, ValueError,
           cat("packing: ", problem.items.size(), " items; expected fewer than 2^31"));
  int64_t sum = 0;
  for (const PackingItem& item : problem.items) {
    TR_CHECK(item.lower < item.upper, ValueError,
             cat("packing: item '", item.name, "' lives from ", item.lower, " to ", item.upper,
                 "; expected lower < upper"));
    const int64_t size = rounded_size(item, problem.alignment);
    TR_CHECK(size < TOO_MANY_BYTES - sum, ValueError,
             cat("packing: with item '", item.name, "' of ", item.size,
                 " bytes the sizes add up to 2^62 or more; expected less"));
    sum += size;
  }
  const auto count = static_cast<int32_t>(problem.items.size());
  for (const auto& [a, b] : problem.extra_conflicts)
    TR_CHECK(a >= 0 && a < count && b >= 0 && b < count && a != b, IndexError,
             cat("packing: extra conflict of items ", a, " and ", b, "; expected two of ", count, " items"));
}

/// Items by a time, ascending.
std::vector<int32_t> by_time(const PackingProblem& problem, int64_t PackingItem::*time) {
  std::vector<int32_t> order(problem.items.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return problem.items[static_cast<size_t>(a)].*time < problem.items[static_cast<size_t>(b)].*time;
  });
  return order;
}

/// Sweeps births and deaths in order (deaths first: lifetimes are half open) and numbers the sections.
void number_sections(const PackingProblem& problem, Sections& sections) {
  const std::vector<int32_t> births = by_time(problem, &PackingItem::lower);
  const std::vector<int32_t> deaths = by_time(problem, &PackingItem::upper);
  int64_t alive = 0;
  size_t born = 0;
  bool grows = false;
  for (const int32_t dying : deaths) {
    const int64_t time = problem.items[static_cast<size_t>(dying)].upper;
    for (; born < births.size() && problem.items[static_cast<size_t>(births[born])].lower < time; ++born) {
      Item& item = sections.items[static_cast<size_t>(births[born])];
      item.first = static_cast<int32_t>(sections.load.size());
      alive += item.size;
      grows = true;
    }
    if (grows) sections.load.push_back(alive);
    grows = false;
    Item& item = sections.items[static_cast<size_t>(dying)];
    item.last = static_cast<int32_t>(sections.load.size()) - 1;
    alive -= item.size;
  }
}

/// Largest load of each item's sections, from a table of maxima over runs of powers of two.
void find_contention(Sections& sections) {
  std::vector<std::vector<int64_t>> largest{sections.load};
  for (size_t run = 1; 2 * run <= sections.load.size(); run *= 2) {
    const std::vector<int64_t>& half = largest.back();
    std::vector<int64_t> whole(half.size() - run);
    for (size_t i = 0; i < whole.size(); ++i) whole[i] = std::max(half[i], half[i + run]);
    largest.push_back(std::move(whole));
  }
  for (Item& item : sections.items) {
    const auto length = static_cast<size_t>(item.last - item.first + 1);
    const auto level = static_cast<size_t>(std::bit_width(length)) - 1;
    const auto first = static_cast<size_t>(item.first);
    item.contention = std::max(largest[level][first], largest[level][first + length - (size_t{1} << level)]);
  }
}

}  // namespace

Sections make_sections(const PackingProblem& problem) {
  check(problem);
  Sections sections;
  sections.items.resize(problem.items.size());
  for (size_t i = 0; i < problem.items.size(); ++i) {
    const PackingItem& item = problem.items[i];
    // Unsigned, because the difference of two int64_t may need 64 bits; the order is all that matters.
    const uint64_t lifetime = static_cast<uint64_t>(item.upper) - static_cast<uint64_t>(item.lower);
    sections.items[i].size = rounded_size(item, problem.alignment);
    sections.items[i].lower = item.lower;
    sections.items[i].lifetime = static_cast<int64_t>(std::min(lifetime, uint64_t{1} << 62));
  }
  number_sections(problem, sections);
  find_contention(sections);
  for (const int64_t load : sections.load) sections.lower_bound = std::max(sections.lower_bound, load);
  if (!problem.extra_conflicts.empty()) sections.extra.resize(problem.items.size());
  for (const auto& [a, b] : problem.extra_conflicts) {
    sections.extra[static_cast<size_t>(a)].push_back(b);
    sections.extra[static_cast<size_t>(b)].push_back(a);
  }
  return sections;
}

}  // namespace tr::packing
