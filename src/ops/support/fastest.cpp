#include "ops/support/fastest.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "ops/support/cuda_graph.h"

namespace tr {
namespace {

/// Libraries list their ways with the most promising first.
constexpr int MOST_TIMED_OF_A_FAMILY = 12;
/// A way this much slower than the best so far is not timed again.
constexpr double HOPELESS = 2.0;
/// What the calls of a graph take together, where they are short; beside so much, a launch does not count.
constexpr double GRAPH_MS = 1.0;
constexpr double MOST_CALLS = 10.0;

std::string in_family(const std::string& family) { return family + ": "; }
std::string full_name(const Way& way) { return in_family(way.family) + way.name; }

/// Null where nothing was chosen, or what was cannot be built any more.
Call build_chosen(const CudaContext& context, const std::string& work, const std::vector<Way>& ways) {
  const std::optional<std::string> chosen = context.algorithms->find(work);
  if (!chosen) return nullptr;
  const auto way = std::find_if(ways.begin(), ways.end(),
                                [&](const Way& candidate) { return full_name(candidate) == *chosen; });
  if (way == ways.end()) return nullptr;
  try {
    return way->build();
  } catch (const Error&) {
    return nullptr;
  }
}

/// Milliseconds of one call, run as part of a graph.
double captured_ms(cudaStream_t stream, const Call& call, double best, const std::string& node) {
  const double alone = time_on_stream(stream, call, 1);  // also loads the kernels
  if (alone > GRAPH_MS && alone > HOPELESS * best) return alone;
  const double calls = std::floor(std::clamp(GRAPH_MS / alone, 1.0, MOST_CALLS));
  const auto graph = capture_graph(
      stream,
      [&] {
        for (int i = 0; i < static_cast<int>(calls); ++i) call();
        check_cuda(cudaGetLastError(), node);
      },
      node);
  const Call launch = [&] { check_cuda(cudaGraphLaunch(graph.get(), stream), node); };
  const double first = time_on_stream(stream, launch, 1) / calls;
  if (first > HOPELESS * best) return first;
  return time_on_stream(stream, launch, alone < GRAPH_MS ? 9 : 3) / calls;
}

/// After a way that does not run.
void recover(cudaStream_t stream, const std::string& node) {
  static_cast<void>(cudaGetLastError());  // or the next launch would be blamed
  // An error that stays is the device's, not the way's.
  check_cuda(cudaStreamSynchronize(stream), cat(node, ": timing algorithms"));
}

}  // namespace

Call fastest(CudaContext& context, const std::string& node, const std::string& work,
             const std::vector<Way>& ways) {
  if (Call call = build_chosen(context, work, ways)) return call;
  if (context.before_timing) context.before_timing();
  double best = std::numeric_limits<double>::infinity();
  Call best_call;
  std::string best_name, reason = "none fits the card and its workspace";
  std::map<std::string, int> timed;
  for (const Way& way : ways) {
    if (timed[way.family] == MOST_TIMED_OF_A_FAMILY || (way.last_resort && best_call)) continue;
    Call call;  // outlives what a failure leaves on the stream
    try {
      call = way.build();
      if (!call) continue;
      const double ms = captured_ms(context.stream, call, best, node);
      ++timed[way.family];
      if (ms >= best) continue;
      best = ms;
      best_name = full_name(way);
      best_call = std::move(call);
    } catch (const Error& error) {
      recover(context.stream, node);
      reason = cat(full_name(way), ": ", error.what());
      if (context.debug) context.debug(cat(node, ": left out ", reason));
    }
  }
  TR_CHECK(best_call, NotSupportedError,
           cat(node, ": none of ", ways.size(), " ways runs on this device (", reason,
               "); free device memory or update the library"));
  context.algorithms->store(work, best_name);
  return best_call;
}

std::optional<std::string> chosen_of_family(const CudaContext& context, const std::string& work,
                                            const std::string& family) {
  const std::optional<std::string> chosen = context.algorithms->find(work);
  if (!chosen || !chosen->starts_with(in_family(family))) return std::nullopt;
  return chosen->substr(in_family(family).size());
}

}  // namespace tr
