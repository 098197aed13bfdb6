/// The largest batch that fits into given memory, found by planning: no device, no trial run.
///
///   BatchFit fit = fit_batch(recipe, data_info(recipe, false), {.memory_bytes = parse_bytes("24GiB")});
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "renaissance/train/trainer.h"

namespace tr {

struct FitRequest {
  int64_t memory_bytes = 0;  ///< of one card, or of the CPU's host for all ranks
  int64_t granularity = 1;   ///< the batch is a multiple of it
};

/// What one batch needs.
struct BatchNeed {
  int64_t batch = 0;              ///< train.batch_size, per rank
  int64_t arena_bytes = 0;        ///< of one rank
  int64_t arenas = 1;             ///< in this memory: of all ranks on the CPU, one on a card
  int64_t overhead_bytes = 0;     ///< measured_overhead(); 0 where it is unknown
  int64_t pinned_host_bytes = 0;  ///< of one rank, not part of `bytes()`: it is the host's
  bool exceeds_budget = false;    ///< the recipe's memory.budget cannot be met; only `batch` is known then
  std::string refusal;            ///< why its shapes cannot run; only `batch` is known then

  bool is_planned() const { return !exceeds_budget && refusal.empty(); }
  int64_t bytes() const { return arena_bytes * arenas + overhead_bytes; }
};

struct BatchFit {
  BatchNeed fits;  ///< within the memory
  /// The next multiple, which exceeds the memory or the recipe's memory.budget, or cannot run; nothing where
  /// the data have too few samples for it. Packing may still make an even larger batch fit.
  std::optional<BatchNeed> next;
  Target target;  ///< what was planned for
  int plans = 0;  ///< compiled to find it, refused ones included
};

/// The batch of a recipe that memory allows, everything else as the recipe says. A batch whose shapes are
/// refused (NotSupportedError, ShapeError), for instance because one sample is left over for batch norm, is
/// passed over; where 32 multiples in a row are refused, larger ones are not looked at. ValueError when the
/// smallest that runs does not fit (the text says what it needs), for memory or granularity below 1, and for
/// a granularity that the data have too few samples for; otherwise as compile_request() and compile().
BatchFit fit_batch(const Recipe& recipe, const DataInfo& info, const FitRequest& request);

/// "24GiB", "24GB", "25769803776" as bytes, as recipes write sizes; ValueError that starts with `who`.
int64_t parse_bytes(const std::string& text, const std::string& who);

}  // namespace tr
