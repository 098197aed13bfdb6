#include "renaissance/backend/backend.h"

#include <algorithm>

#include "backend/factories.h"
#include "core/sixteen_bits.h"

namespace tr {

void put_pixels(const InputSlot& slot, std::span<const float> pixels, int64_t channels) {
  TR_CHECK(!slot.raw_bytes, StateError, "input slot: it takes bytes that the device normalizes");
  if (slot.dtype == DType::FP32) {
    std::ranges::copy(pixels, reinterpret_cast<float*>(slot.data));
    return;
  }
  with_16bit(slot.dtype, [&](auto type) {
    narrow_pixels(type, pixels.data(), std::ssize(pixels) / channels, channels,
                  reinterpret_cast<uint16_t*>(slot.data), slot.pixel_stride);
  });
}

int64_t available_bytes(const Target& target) {
  return target.backend == BackendKind::CPU ? available_cpu_bytes() : available_cuda_bytes();
}

std::unique_ptr<Context> make_context(std::shared_ptr<const CompiledModel> model,
                                      const ContextOptions& options) {
  TR_CHECK(!model->request.plan_only, StateError,
           "context: the model was compiled for planning only; compile it to run");
  const Target& target = model->request.target;
  const int64_t needed = model->plan(Variant::TRAIN_BASE).total_bytes() * target.ranks,
                available = available_bytes(target);
  TR_CHECK(available < 0 || needed <= available, DeviceError,
           cat(backend_name(target.backend), ": the plan needs ", needed, " bytes on ", target.ranks,
               " ranks, ", available, " are available; use a smaller batch or resolution"));
  return target.backend == BackendKind::CPU ? make_cpu_context(std::move(model), options)
                                            : make_cuda_context(std::move(model), options);
}

}  // namespace tr
