/// What the kernels of concat share.
#pragma once

#include "renaissance/graph/op_spec.h"

namespace tr {

/// Why the inputs cannot be joined where they lie; empty where they can. A view's channels are not those of
/// the map it looks at.
std::string concat_declines(const OpQuery& query);

}  // namespace tr
