// Batch normalization on CUDA, memory bound. RECOMPUTE reads x once; FORWARD reads x once where the
// convolution before it left sums, else twice; BACKWARD reads x and dy twice.
#include "ops/bn/bn_cuda.h"

#include "ops/bn/bn.h"
#include "ops/support/cuda.h"

namespace tr {
namespace {

using bn_cuda::ConstMap;
using bn_cuda::MutableMap;

ConstMap const_map(const Binding& binding, Port port, int index = 0) {
  return {binding.data<const void>(port, index), static_cast<int>(pixel_stride(binding.tensor(port, index)))};
}
MutableMap mutable_map(const Binding& binding, Port port, int index = 0) {
  return {binding.data<void>(port, index), static_cast<int>(pixel_stride(binding.tensor(port, index)))};
}

bn_cuda::Extent extent_of(const Binding& binding, KernelContext& context) {
  const Shape& x = binding.query.x[0];
  bool vectors = true;
  for (const Operand& operand : binding.operands) {
    const bool is_map = operand.port == Port::X || operand.port == Port::Y || operand.port == Port::DX ||
                        operand.port == Port::DY;
    if (is_map && pixel_stride(operand.tensor) % bn_cuda::GROUP != 0) vectors = false;
  }
  return {binding.tensor(Port::X).dtype, static_cast<int>(pixels_of(x)), static_cast<int>(x.c()), vectors,
          cuda(context).multiprocessors};
}

bn_cuda::BatchStatistics statistics_of(const Binding& binding) {
  const BnAttributes bn(binding.query.attrs);
  const auto pixels = static_cast<double>(pixels_of(binding.query.x[0]));
  const auto written = [&](Port port, int index) {
    return binding.pass == Pass::FORWARD ? binding.data<float>(port, index) : nullptr;
  };
  return {written(Port::SAVED, 0),
          written(Port::SAVED, 1),
          binding.data<const float>(Port::STATE_PREV, 0),
          binding.data<const float>(Port::STATE_PREV, 1),
          written(Port::STATE_NEXT, 0),
          written(Port::STATE_NEXT, 1),
          bn.momentum,
          bn.epsilon,
          1.0 / pixels,
          pixels > 1.0 ? pixels / (pixels - 1.0) : 1.0,
          nullptr};
}

bn_cuda::Normalization normalization_of(const Binding& binding) {
  const BnAttributes bn(binding.query.attrs);
  bn_cuda::Normalization call;
  call.x = const_map(binding, Port::X);
  if (bn.residual) call.x1 = const_map(binding, Port::X, 1);
  call.y = mutable_map(binding, Port::Y);
  call.relu = bn.relu;
  if (binding.has(Port::EQUIVALENT)) {
    call.weight = binding.data<const float>(Port::EQUIVALENT, 0);
    call.bias = binding.data<const float>(Port::EQUIVALENT, 1);
    call.moments = bn_cuda::Moments::FOLDED;
    return call;
  }
  call.weight = binding.data<const float>(Port::PARAM, 0);
  call.bias = binding.data<const float>(Port::PARAM, 1);
  if (binding.pass == Pass::RECOMPUTE) {
    call.statistics.mean = binding.data<float>(Port::SAVED, 0);
    call.statistics.inverse_std = binding.data<float>(Port::SAVED, 1);
    call.moments = bn_cuda::Moments::BATCH;
    return call;
  }
  call.statistics = statistics_of(binding);
  if (binding.pass != Pass::FORWARD) return call;
  if (bn.relu && bn.residual) {
    const DTensor& mask = binding.tensor(Port::SAVED, 2);
    call.mask = binding.data<uint8_t>(Port::SAVED, 2);
    call.mask_padding = static_cast<int>(mask.physical_elements() - mask.shape.numel());
  }
  call.moments = bn.frozen ? bn_cuda::Moments::FIXED : bn_cuda::Moments::BATCH;
  const int rows = binding.query.statistics;
  if (rows == 0) return call;
  const auto* first = binding.data<const float>(Port::STATISTICS);
  const int64_t stride = pixel_stride(binding.tensor(Port::STATISTICS));
  if (rows >= 2) {
    call.moments = bn_cuda::Moments::SUMS;
    call.sums = first;
    call.sums_stride = static_cast<int>(stride);
  }
  if (rows % 2 == 1) call.statistics.offset = first + (rows - 1) * stride;
  return call;
}

bn_cuda::Gradients gradients_of(const Binding& binding) {
  const BnAttributes bn(binding.query.attrs);
  bn_cuda::Gradients call;
  call.x = const_map(binding, Port::X);
  for (int i = 0; i < binding.query.gradients; ++i) call.dy[i] = const_map(binding, Port::DY, i);
  if (bn.relu) call.mask_from = bn.residual ? bn_cuda::MaskFrom::BITS : bn_cuda::MaskFrom::X;
  if (bn.relu && bn.residual) call.mask = binding.data<const uint8_t>(Port::SAVED, 2);
  if (bn.relu && !bn.residual) call.bias = binding.data<const float>(Port::PARAM, 1);
  call.weight = binding.data<const float>(Port::PARAM, 0);
  call.mean = binding.data<const float>(Port::SAVED, 0);
  call.inverse_std = binding.data<const float>(Port::SAVED, 1);
  call.fixed_statistics = bn.frozen;
  call.weight_gradient = binding.data<float>(Port::PARAM_GRAD, 0);
  call.bias_gradient = binding.data<float>(Port::PARAM_GRAD, 1);
  return call;
}

class BnCudaKernels : public OpKernels {
 public:
  Offer offer(const OpQuery& query, Pass pass) const override {
    Offer offer = bn_cuda_offer(query, pass);
    if (offer.supported()) offer.declined = cuda_declines(query.dtype);
    return offer;
  }

  Call prepare(const Binding& binding, KernelContext& context) const override {
    return binding.pass == Pass::BACKWARD ? backward(binding, context) : forward(binding, context);
  }

 private:
  static Call forward(const Binding& binding, KernelContext& context) {
    const bn_cuda::Extent extent = extent_of(binding, context);
    const bn_cuda::Normalization normalization = normalization_of(binding);
    const cudaStream_t stream = cuda(context).stream;
    if (binding.pass == Pass::RECOMPUTE || normalization.moments != bn_cuda::Moments::BATCH)
      return [=, layer = binding.query.layer] {
        launch_normalize(extent, normalization, stream);
        check_cuda(cudaGetLastError(), layer);
      };
    auto* partials = reinterpret_cast<float*>(binding.workspace);
    auto* counters = binding.data<int32_t>(Port::BASELINE, SYNC_COUNTERS);
    return [=, layer = binding.query.layer] {
      launch_statistics(extent, normalization.x, normalization.statistics, partials, counters, stream);
      launch_normalize(extent, normalization, stream);
      check_cuda(cudaGetLastError(), layer);
    };
  }

  static Call backward(const Binding& binding, KernelContext& context) {
    const bn_cuda::Extent extent = extent_of(binding, context);
    bn_cuda::Gradients sums = gradients_of(binding), input = sums;
    if (binding.has(Port::DX, 1)) {
      sums.dx = mutable_map(binding, Port::DX, 1);
      // Already summed and under the mask.
      input.dy[0] = const_map(binding, Port::DX, 1);
      input.dy[1] = {};
      input.mask_from = bn_cuda::MaskFrom::NONE;
    }
    const bool wants_input = binding.has(Port::DX, 0);
    if (wants_input) input.dx = mutable_map(binding, Port::DX, 0);
    auto* partials = reinterpret_cast<float*>(binding.workspace);
    auto* counters = binding.data<int32_t>(Port::BASELINE, SYNC_COUNTERS);
    return [=, stream = cuda(context).stream, layer = binding.query.layer] {
      launch_gradient_sums(extent, sums, partials, counters, stream);
      if (wants_input) launch_input_gradient(extent, input, stream);
      check_cuda(cudaGetLastError(), layer);
    };
  }
};

}  // namespace

std::unique_ptr<OpKernels> bn_cuda_kernels();
std::unique_ptr<OpKernels> bn_cuda_kernels() { return std::make_unique<BnCudaKernels>(); }

}  // namespace tr
