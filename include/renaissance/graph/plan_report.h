/// What a compiled model's memory looks like: for people, and for programs (docs/json.md).
///
///   std::cout << plan_text(compile(request, catalog));
#pragma once

#include <string>

#include "renaissance/graph/compiler.h"

namespace tr {

/// The model's facts, the six variants, all 68 regions, sums by meaning, what is lost to padding and to
/// small variants, the largest tensors. UTF-8, ends with a newline.
std::string plan_text(const CompiledModel& model);

/// The same as one JSON object on one line, without a newline.
std::string plan_json(const CompiledModel& model);

/// The variant whose captures `variant` uses: itself, or the first one of the same input shape.
Variant capture_owner(const CompiledModel& model, Variant variant);

/// Slot bytes that the shapes of one variant do not need, because a slot is the largest over the variants.
int64_t variant_waste_bytes(const CompiledModel& model, Variant variant);

/// Slot bytes of one variant that are alignment and spare bytes around its tensors' elements.
int64_t alignment_waste_bytes(const CompiledModel& model, Variant variant);

}  // namespace tr
