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

constexpr std::array<std::pair<Region, Region>, 11> CONTIGUOUS_RUNS{{
    {Region::B_PREV_MEAN, Region::B_NEXT_VAR},
    {Region::G_BN_BIAS, Region::G_FIRST_CONV},
    {Region::G_DEEP_CONV, Region::G_DEEP_CONV},
    {Region::G_BN_BIAS, Region::G_DEEP_CONV_FP16},
    {Region::I_A_LABEL, Region::I_B_DATA},
    {Region::E_FC_WEIGHT_FP16, Region::E_DEEP_CONV_FP16},
    {Region::W_BN_BIAS, Region::W_DEEP_CONV},
    {Region::E_BN_BIAS, Region::E_DEEP_CONV},
    {Region::G_BN_BIAS, Region::G_DEEP_CONV},
    {Region::M_BN_BIAS, Region::M_DEEP_CONV},
    {Region::V_BN_BIAS, Region::V_DEEP_CONV},
}};

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

}  // namespace

std::span<const std::pair<Region, Region>> contiguous_runs() { return CONTIGUOUS_RUNS; }

void validate_region_order(const PlanImage& image) {
  for (int r = 1; r < NUM_REGIONS; ++r) {
    const int64_t before = image.regions[static_cast<size_t>(r - 1)].base,
                  base = image.regions[static_cast<size_t>(r)].base;
    TR_CHECK(base >= before, ValueError,
             cat("region order: ", r == NUM_REGIONS - 1 ? "the end" : region_name(region_at(r)), " is at ",
                 base, ", below ", region_name(region_at(r - 1)), " at ", before));
  }
  for (const DTensor& tensor : image.tensors) {
    const RegionInfo& region = info(image, tensor.region);
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
    for (const Region first : {Region::E_BN_BIAS, Region::G_BN_BIAS, Region::M_BN_BIAS, Region::V_BN_BIAS})
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
  std::vector<const DTensor*> order;
  order.reserve(image.tensors.size());
  for (const DTensor& tensor : image.tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(),
            [](const DTensor* a, const DTensor* b) { return a->offset < b->offset; });
  for (size_t i = 0; i < order.size(); ++i) {
    TR_CHECK(order[i]->data_bytes() <= order[i]->slot_bytes, ValueError,
             cat("disjointness: ", describe(*order[i]), " holds ", order[i]->data_bytes(),
                 " bytes in a slot of ", order[i]->slot_bytes));
    const int64_t end = order[i]->offset + order[i]->slot_bytes;
    const int64_t limit = i + 1 < order.size() ? order[i + 1]->offset : image.total_bytes;
    TR_CHECK(end <= limit, ValueError,
             i + 1 < order.size() ? cat("disjointness: ", describe(*order[i]), " ends at ", end,
                                        " and overlaps ", describe(*order[i + 1]))
                                  : cat("disjointness: ", describe(*order[i]), " ends at ", end,
                                        ", past the arena's ", image.total_bytes, " bytes"));
  }
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
