/// Where a loader puts a batch that a context takes in.
#pragma once

#include "data/batch_loader.h"
#include "renaissance/backend/backend.h"

namespace tr {

inline BatchTarget target_of(const InputSlot& slot) {
  return {slot.data, slot.labels, slot.raw_bytes, slot.dtype, slot.pixel_stride, slot.mix};
}

}  // namespace tr
