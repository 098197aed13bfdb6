#include "backend/cpu/rates.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace tr {

double median_ms(const Call& call, int repeats) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> times;
  call();
  for (int i = 0; i < repeats; ++i) {
    const Clock::time_point start = Clock::now();
    call();
    times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

DeviceRates measure_cpu_rates(CpuContext& context) {
  constexpr int REPEATS = 5;
  constexpr int64_t FLOATS = 64 << 20, SIDE = 2048;
  std::vector<float> from(FLOATS), to(FLOATS);
  for (size_t i = 0; i < from.size(); ++i)
    from[i] = static_cast<float>(i * 2654435761u % 1024u) / 1024.0f - 0.5f;
  const double copy_ms = median_ms(
      [&] {
        parallel_pieces(FLOATS, [&](int64_t first, int64_t last) {
          std::memcpy(to.data() + first, from.data() + first,
                      static_cast<size_t>(last - first) * sizeof(float));
        });
      },
      REPEATS);

  const dnnl::memory::desc square({SIDE, SIDE}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::ab);
  const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(square, square, square), context.engine);
  const auto memory = [&](float* data) { return dnnl::memory(square, context.engine, data); };
  const DnnlCall product(dnnl::matmul(description), context.stream,
                         {{DNNL_ARG_SRC, memory(from.data())},
                          {DNNL_ARG_WEIGHTS, memory(from.data() + SIDE * SIDE)},
                          {DNNL_ARG_DST, memory(to.data())}});
  const double product_ms = median_ms(product, REPEATS);
  return {2.0 * sizeof(float) * FLOATS / copy_ms * 1e3, 2.0 * SIDE * SIDE * SIDE / product_ms * 1e3};
}

}  // namespace tr
