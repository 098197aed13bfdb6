// RANGE_CLEAR, RANGE_D2D_COPY and RANGE_SEMA_SWITCH.
#include <cstring>

#include "range_ops/range_ops_cpu.h"

namespace tr {

Call bind_memory_cpu(const RangeBinding& binding) {
  const GraphNode& node = binding.node;
  if (!node.tensors.empty())
    return [base = binding.base, slots = resolve_slots(binding.plan, node.tensors)] {
      for (const auto& [offset, bytes] : slots) std::memset(base + offset, 0, static_cast<size_t>(bytes));
    };
  if (node.range_op == RangeOp::RANGE_CLEAR) {
    const auto [offset, bytes] = resolve_region_bounds(binding.plan, node.out.at(0));
    if (bytes == 0) return {};
    return [data = binding.base + offset, n = static_cast<size_t>(bytes)] { std::memset(data, 0, n); };
  }
  std::byte *from = nullptr, *to = nullptr;
  size_t bytes = 0;
  if (binding.from != NO_TENSOR) {
    from = binding.base + binding.plan.tensor(binding.from).offset;
    to = binding.base + binding.plan.tensor(node.to).offset;
    bytes = static_cast<size_t>(binding.plan.tensor(node.to).data_bytes());
  } else {
    const auto source = resolve_region_bounds(binding.plan, node.in.at(0));
    const auto target = resolve_region_bounds(binding.plan, node.out.at(0));
    TR_CHECK(source.second == target.second, ShapeError,
             cat(node.name, ": ", source.second, " bytes do not fit ", target.second));
    from = binding.base + source.first;
    to = binding.base + target.first;
    bytes = static_cast<size_t>(source.second);
  }
  if (bytes == 0) return {};
  const int32_t* nan_flag = node.only_when_clean ? binding.counter(NAN_FLAG) : nullptr;
  return [from, to, bytes, nan_flag] {
    if (nan_flag == nullptr || *nan_flag == 0) std::memcpy(to, from, bytes);
  };
}

}  // namespace tr
