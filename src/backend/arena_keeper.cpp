#include "renaissance/backend/arena_keeper.h"

namespace tr {

ArenaKeeper::ArenaKeeper(int ranks, int64_t bytes, ArenaAllocator& allocator)
    : allocator_(allocator), bytes_(bytes) {
  TR_CHECK(ranks >= 1 && bytes > 0, ValueError,
           cat("arena: ", ranks, " ranks of ", bytes, " bytes; both must be positive"));
  arenas_.reserve(static_cast<size_t>(ranks));
  try {
    for (int rank = 0; rank < ranks; ++rank) arenas_.push_back(allocator.allocate(rank, bytes));
  } catch (...) {
    for (size_t rank = 0; rank < arenas_.size(); ++rank)
      allocator_.release(static_cast<int>(rank), arenas_[rank], bytes_);
    throw;
  }
}

ArenaKeeper::~ArenaKeeper() {
  for (size_t rank = 0; rank < arenas_.size(); ++rank)
    allocator_.release(static_cast<int>(rank), arenas_[rank], bytes_);
}

}  // namespace tr
