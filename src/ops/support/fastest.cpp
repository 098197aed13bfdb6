#include "ops/support/fastest.h"

#include <limits>
#include <map>
#include <optional>

namespace tr {
namespace {

/// Libraries list their ways with the most promising first.
constexpr int MOST_TIMED_OF_A_FAMILY = 12;
/// A way this much slower than the best so far is not timed again.
constexpr double HOPELESS = 2.0;

std::string full_name(const Way& way) { return cat(way.family, ": ", way.name); }

Call build_chosen(const AlgorithmCache& algorithms, const std::string& work, const std::vector<Way>& ways) {
  const std::optional<std::string> chosen = algorithms.find(work);
  if (!chosen) return nullptr;
  for (const Way& way : ways)
    if (full_name(way) == *chosen) return way.build();
  return nullptr;
}

/// Nothing where it does not run.
std::optional<double> milliseconds(cudaStream_t stream, const Call& call, double best) {
  try {
    const double once = time_on_stream(stream, call, 1);
    if (once > HOPELESS * best) return once;
    return time_on_stream(stream, call, once < 1.0 ? 9 : 3);
  } catch (const Error&) {
    static_cast<void>(cudaGetLastError());  // or the next launch would be blamed
    // An error that stays is the device's, not this way's.
    check_cuda(cudaStreamSynchronize(stream), "timing algorithms");
    return std::nullopt;
  }
}

}  // namespace

Call fastest(CudaContext& context, const std::string& work, const std::vector<Way>& ways) {
  if (Call call = build_chosen(*context.algorithms, work, ways)) return call;
  double best = std::numeric_limits<double>::infinity();
  Call best_call;
  std::string best_name;
  std::map<std::string, int> timed;
  for (const Way& way : ways) {
    if (timed[way.family] == MOST_TIMED_OF_A_FAMILY || (way.last_resort && best_call)) continue;
    Call call = way.build();
    if (!call) continue;
    const std::optional<double> time = milliseconds(context.stream, call, best);
    if (!time) continue;
    ++timed[way.family];
    if (*time >= best) continue;
    best = *time;
    best_call = std::move(call);
    best_name = full_name(way);
  }
  TR_CHECK(
      best_call, NotSupportedError,
      cat(work, ": none of ", ways.size(), " ways runs on this device; free device memory or update cuDNN"));
  context.algorithms->store(work, best_name);
  return best_call;
}

}  // namespace tr
