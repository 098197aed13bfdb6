/// Parts of plan_text() that say who needs which bytes, and when.
#pragma once

#include <string>

#include "renaissance/graph/plan_report.h"

namespace tr {

/// "3.1 %", with as many digits after the point; 0 of an empty whole.
std::string percent(int64_t part, int64_t whole, int digits = 1);

/// Sums over regions of one meaning, which add up to the arena.
std::string sums_section(const CompiledModel& model);
/// The transient tensors by what they are: slots, and what of them is alive at training's peak.
std::string transients_section(const CompiledModel& model);
/// The largest tensors of all.
std::string largest_section(const CompiledModel& model);
/// Who is alive at the node of a program that needs the most, its heading included.
std::string peak_section(const CompiledModel& model, Program program);

}  // namespace tr
