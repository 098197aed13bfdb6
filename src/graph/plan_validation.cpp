// The validations of a laid-out plan. They read the image as plain data and share no code with the layout.
#include <algorithm>

#include "renaissance/graph/memory_plan.h"

namespace tr {

namespace {

const RegionInfo& info(const PlanImage& image, Region region) {
  return image.regions[static_cast<size_t>(index_of(region))];
}

std::vector<const DTensor*> members(const PlanImage& image, Region region) {
  std::vector<const DTensor*> list;
  for (const DTensor& tensor : image.tensors)
    if (tensor.region == region) list.push_back(&tensor);
  std::sort(list.begin(), list.end(),
            [](const DTensor* a, const DTensor* b) { return a->offset < b->offset; });
  return list;
}

std::string describe(const DTensor& tensor) {
  return cat("tensor ", tensor.id, " ", tensor.shape, " in ", region_name(tensor.region), " at ",
             tensor.offset);
}

constexpr std::array<std::pair<Region, Region>, 12> CONTIGUOUS_RUNS{{
    {Region::B_PREV_MEAN, Region::B_NEXT_VAR},
    {Region::G_BN_BIAS, Region::G_FIRST_CONV},
    {Region::G_DEEP_CONV, Region::G_DEEP_CONV},
    {Region::G_BN_BIAS, Region::G_DEEP_CONV_FP16},
    {Region::I_A_LABEL, Region::I_B_DATA},
    {Region::E_FC_WEIGHT_FP16, Region::E_DEEP_CONV_FP16},
    {Region::W_BN_BIAS, Region::W_DEEP_CONV},
    {Region::E_BN_BIAS, Region::E_DEEP_CONV},
    {Region::G_BN_BIAS, Region::G_DEEP_CONV},
    {Region::GA_BN_BIAS, Region::GA_DEEP_CONV},
    {Region::M_BN_BIAS, Region::M_DEEP_CONV},
    {Region::V_BN_BIAS, Region::V_DEEP_CONV},
}};

constexpr Region FIRST_TRANSIENT = Region::F_FEATURE_FP32;

bool in_zone(const PlanImage& image, Region region) {
  return image.config.layout == Layout::PACKED && region_traits(region).transient;
}

constexpr int ROLES = NUM_PARAM_ROLES;
Region plus(Region first, int step) { return region_at(index_of(first) + step); }

/// Same tensors, in the same order, with the same element counts (or one element each, for norms).
void check_mirror(const PlanImage& image, Region master, Region mirror, bool one_element_each) {
  const auto want = members(image, master);
  const auto have = members(image, mirror);
  TR_CHECK(want.size() == have.size(), ValueError,
           cat("layer correspondence: ", region_name(master), " has ", want.size(), " tensors, ",
               region_name(mirror), " has ", have.size()));
  for (size_t i = 0; i < want.size(); ++i) {
    const int64_t expected = one_element_each ? 1 : want[i]->shape.numel();
    TR_CHECK(have[i]->shape.numel() == expected, ValueError,
             cat("layer correspondence: place ", i, " of ", region_name(mirror), " has ",
                 have[i]->shape.numel(), " elements, ", region_name(master), " asks for ", expected));
  }
}

void check_twins(const PlanImage& image, Region wide_first, Region narrow_first) {
  const int64_t wide_base = info(image, wide_first).base, narrow_base = info(image, narrow_first).base;
  for (int step = 0; step < 3; ++step) {
    const Region wide = plus(wide_first, step), narrow = plus(narrow_first, step);
    const auto wides = members(image, wide), narrows = members(image, narrow);
    const RegionInfo &w = info(image, wide), &n = info(image, narrow);
    TR_CHECK(w.bytes == 2 * n.bytes && w.base - wide_base == 2 * (n.base - narrow_base), ValueError,
             cat("twin factor: ", region_name(wide), " has ", w.bytes, " bytes, ", region_name(narrow),
                 " has ", n.bytes, "; ranges must be exactly 2 : 1"));
    for (size_t i = 0; i < std::min(wides.size(), narrows.size()); ++i)
      TR_CHECK(wides[i]->offset - wide_base == 2 * (narrows[i]->offset - narrow_base), ValueError,
               cat("twin factor: ", describe(*wides[i]), " is ", wides[i]->offset - wide_base,
                   " bytes into its range, ", describe(*narrows[i]), " is ", narrows[i]->offset - narrow_base,
                   "; must be exactly 2 : 1"));
  }
}

/// Bytes [begin, end) of a tensor, or of the whole transient zone.
struct Span {
  int64_t begin, end;
  const DTensor* tensor;  ///< null: the zone

  std::string str() const {
    return tensor != nullptr ? describe(*tensor) : cat("the transient zone at ", begin);
  }
};

void check_no_overlap(std::vector<Span> spans, int64_t total_bytes) {
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  for (size_t i = 0; i < spans.size(); ++i) {
    if (i + 1 < spans.size())
      TR_CHECK(spans[i].end <= spans[i + 1].begin, ValueError,
               cat("disjointness: ", spans[i].str(), " ends at ", spans[i].end, " and overlaps ",
                   spans[i + 1].str()));
    TR_CHECK(spans[i].end <= total_bytes, ValueError,
             cat("disjointness: ", spans[i].str(), " ends at ", spans[i].end, ", past the arena's ",
                 total_bytes, " bytes"));
  }
}

/// b took over the bytes of a at the one node where both are needed.
bool takes_over(const PlanImage& image, const DTensor& a, const DTensor& b, Program program) {
  const TransientUse &from = image.uses[static_cast<size_t>(a.id)],
                     &to = image.uses[static_cast<size_t>(b.id)];
  return to.in_place_of == a.id && !from.always && !to.always && a.offset == b.offset &&
         a.slot_bytes == b.slot_bytes && from.in(program).last == to.in(program).first;
}

bool needed_together(const TransientUse& a, const TransientUse& b, Program program) {
  const auto needed = [program](const TransientUse& use) { return use.always || use.in(program).is_used(); };
  return a.always || b.always ? needed(a) && needed(b) : a.in(program).meets(b.in(program));
}

/// Every pair of transient tensors that share a byte.
void check_zone(const PlanImage& image) {
  TR_CHECK(image.uses.size() == image.tensors.size(), ValueError,
           cat("disjointness: ", image.uses.size(), " lifetimes for ", image.tensors.size(), " tensors"));
  std::vector<const DTensor*> zone;
  for (const DTensor& tensor : image.tensors)
    if (in_zone(image, tensor.region)) zone.push_back(&tensor);
  std::sort(zone.begin(), zone.end(),
            [](const DTensor* a, const DTensor* b) { return a->offset < b->offset; });
  for (size_t i = 0; i < zone.size(); ++i) {
    const DTensor& a = *zone[i];
    const TransientUse& use_a = image.uses[static_cast<size_t>(a.id)];
    for (size_t j = i + 1; j < zone.size() && zone[j]->offset < a.offset + a.slot_bytes; ++j) {
      const DTensor& b = *zone[j];
      const TransientUse& use_b = image.uses[static_cast<size_t>(b.id)];
      for (const Program program : {Program::TRAIN, Program::EVAL}) {
        TR_CHECK(!needed_together(use_a, use_b, program) || takes_over(image, a, b, program) ||
                     takes_over(image, b, a, program),
                 ValueError,
                 cat("disjointness: ", describe(a), " ends at ", a.offset + a.slot_bytes, " and overlaps ",
                     describe(b), " while both are needed"));
      }
    }
  }
}

}  // namespace

std::span<const std::pair<Region, Region>> contiguous_runs() { return CONTIGUOUS_RUNS; }

void validate_region_order(const PlanImage& image) {
  int before = 0;
  for (int r = 1; r < NUM_REGIONS; ++r) {
    const Region region = region_at(r);
    const int64_t base = image.regions[static_cast<size_t>(r)].base;
    if (r < NUM_REGIONS - 1 && in_zone(image, region)) {
      TR_CHECK(base == image.zone_base, ValueError,
               cat("region order: ", region_name(region), " is at ", base, ", the transient zone at ",
                   image.zone_base));
      if (region != FIRST_TRANSIENT) continue;  // the zone counts once, where it begins
    }
    const int64_t base_before = image.regions[static_cast<size_t>(before)].base;
    TR_CHECK(base >= base_before, ValueError,
             cat("region order: ", r == NUM_REGIONS - 1 ? "the end" : region_name(region), " is at ", base,
                 ", below ", region_name(region_at(before)), " at ", base_before));
    before = r;
  }
  for (const DTensor& tensor : image.tensors) {
    RegionInfo region = info(image, tensor.region);
    if (in_zone(image, tensor.region)) region.bytes = image.zone_bytes;
    TR_CHECK(tensor.offset >= region.base && tensor.offset + tensor.slot_bytes <= region.base + region.bytes,
             ValueError,
             cat("region order: ", describe(tensor), " with ", tensor.slot_bytes,
                 " bytes lies outside its region [", region.base, ", ", region.base + region.bytes, ")"));
  }
}

void validate_contiguity(const PlanImage& image) {
  for (const auto& [first, last] : CONTIGUOUS_RUNS) {
    int64_t cursor = info(image, first).base;
    for (int r = index_of(first); r <= index_of(last); ++r) {
      const Region region = region_at(r);
      TR_CHECK(info(image, region).base == cursor, ValueError,
               cat("contiguity of ", region_name(first), "…", region_name(last), ": ", region_name(region),
                   " begins at ", info(image, region).base, ", the byte before it ends at ", cursor));
      for (const DTensor* tensor : members(image, region)) {
        TR_CHECK(tensor->offset == cursor, ValueError,
                 cat("contiguity of ", region_name(first), "…", region_name(last), ": ", describe(*tensor),
                     ", expected at ", cursor));
        cursor += tensor->slot_bytes;
      }
      TR_CHECK(info(image, region).base + info(image, region).bytes == cursor, ValueError,
               cat("contiguity of ", region_name(first), "…", region_name(last), ": ", region_name(region),
                   " ends at ", info(image, region).base + info(image, region).bytes, ", its last tensor at ",
                   cursor));
    }
    for (const DTensor& tensor : image.tensors) {
      const bool inside =
          tensor.offset < cursor && tensor.offset + tensor.slot_bytes > info(image, first).base;
      TR_CHECK(!inside || (tensor.region >= first && tensor.region <= last), ValueError,
               cat("contiguity of ", region_name(first), "…", region_name(last), ": ", describe(tensor),
                   " lies inside"));
    }
  }
}

void validate_layer_correspondence(const PlanImage& image) {
  const auto on = [&](Region region) { return is_condition_enabled(region, image.config); };
  for (int role = 0; role < ROLES; ++role) {
    const Region master = plus(Region::W_BN_BIAS, role);
    for (const Region first :
         {Region::E_BN_BIAS, Region::G_BN_BIAS, Region::GA_BN_BIAS, Region::M_BN_BIAS, Region::V_BN_BIAS})
      if (on(plus(first, role))) check_mirror(image, master, plus(first, role), false);
  }
  for (int role = 0; role < 3; ++role) {
    const Region master = plus(Region::W_FC_WEIGHT, role);
    for (const Region first : {Region::E_FC_WEIGHT_FP16, Region::A_FC_WEIGHT, Region::G_FC_WEIGHT_FP16})
      if (on(plus(first, role))) check_mirror(image, master, plus(first, role), false);
    if (on(plus(Region::N_FC_WEIGHT, role)))
      check_mirror(image, master, plus(Region::N_FC_WEIGHT, role), true);
  }
  check_mirror(image, Region::B_PREV_MEAN, Region::B_PREV_VAR, false);
  check_mirror(image, Region::B_PREV_MEAN, Region::B_NEXT_MEAN, false);
  check_mirror(image, Region::B_PREV_MEAN, Region::B_NEXT_VAR, false);
  for (const Region folded : {Region::W_EQ_BIAS, Region::W_EQ_SCALE})
    if (on(folded)) check_mirror(image, Region::B_PREV_MEAN, folded, false);
}

void validate_alignment(const PlanImage& image) {
  for (const DTensor& tensor : image.tensors)
    TR_CHECK(tensor.offset >= 0 && tensor.offset % ARENA_ALIGNMENT_BYTES == 0, ValueError,
             cat("alignment: ", describe(tensor), " is not a multiple of ", ARENA_ALIGNMENT_BYTES));
}

void validate_twin_factor(const PlanImage& image) {
  if (!is_amp(image.config.precision)) return;
  check_twins(image, Region::W_FC_WEIGHT, Region::A_FC_WEIGHT);
  check_twins(image, Region::G_FC_WEIGHT, Region::G_FC_WEIGHT_FP16);
  if (image.config.has_ema) check_twins(image, Region::E_FC_WEIGHT, Region::E_FC_WEIGHT_FP16);
}

void validate_disjointness(const PlanImage& image) {
  std::vector<Span> fixed;
  for (const DTensor& tensor : image.tensors) {
    TR_CHECK(tensor.data_bytes() <= tensor.slot_bytes, ValueError,
             cat("disjointness: ", describe(tensor), " holds ", tensor.data_bytes(), " bytes in a slot of ",
                 tensor.slot_bytes));
    if (!in_zone(image, tensor.region))
      fixed.push_back({tensor.offset, tensor.offset + tensor.slot_bytes, &tensor});
  }
  if (image.config.layout == Layout::PACKED)
    fixed.push_back({image.zone_base, image.zone_base + image.zone_bytes, nullptr});
  check_no_overlap(std::move(fixed), image.total_bytes);
  if (image.config.layout == Layout::PACKED) check_zone(image);
}

void validate_variant_agreement(std::span<const MemoryPlan> plans) {
  if (plans.empty()) return;
  const PlanImage& first = plans.front().image();
  for (size_t v = 1; v < plans.size(); ++v) {
    const PlanImage& other = plans[v].image();
    TR_CHECK(
        other.tensors.size() == first.tensors.size() && other.total_bytes == first.total_bytes, ValueError,
        cat("variant agreement: variant ", v, " has ", other.tensors.size(), " tensors in ",
            other.total_bytes, " bytes, variant 0 has ", first.tensors.size(), " in ", first.total_bytes));
    for (size_t i = 0; i < first.tensors.size(); ++i) {
      const DTensor &a = first.tensors[i], &b = other.tensors[i];
      TR_CHECK(a.region == b.region && a.offset == b.offset && a.slot_bytes == b.slot_bytes, ValueError,
               cat("variant agreement: ", describe(a), " in variant 0, ", describe(b), " in variant ", v));
    }
  }
}

}  // namespace tr
