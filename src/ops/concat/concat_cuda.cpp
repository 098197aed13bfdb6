#include "ops/concat/concat_cuda.h"

#include "ops/support/cuda.h"

namespace tr {
namespace {

int stride_of(const DTensor& tensor) { return static_cast<int>(pixel_stride(tensor)); }

/// One copy for each input that takes part. The last input's also clears the padding of y.
std::vector<ChannelCopy> copies_of(const Binding& binding) {
  const bool backward = binding.pass == Pass::BACKWARD;
  const Port part_port = backward ? Port::DX : Port::X, whole_port = backward ? Port::DY : Port::Y;
  const DTensor& whole = binding.tensor(whole_port);
  const int64_t pixels = pixels_of(whole.shape);
  const size_t inputs = binding.query.x.size();
  std::vector<ChannelCopy> copies;
  int64_t offset = 0;
  for (size_t i = 0; i < inputs; ++i) {
    const int64_t first = offset, channels = binding.query.x[i].c();
    offset += channels;
    const auto index = static_cast<int>(i);
    if (!binding.has(part_port, index)) continue;
    const DTensor& part = binding.tensor(part_port, index);
    ChannelCopy copy{};
    copy.pixels = pixels;
    copy.channels = static_cast<int>(channels);
    if (backward) {
      copy.in = binding.data<const std::byte>(whole_port) + first * dtype_bytes(whole.dtype);
      copy.out = binding.data<void>(part_port, index);
      copy.in_stride = stride_of(whole);
      copy.out_stride = stride_of(part);
      copy.zeros = copy.out_stride - copy.channels;
    } else {
      copy.in = binding.data<const void>(part_port, index);
      copy.out = binding.data<std::byte>(whole_port) + first * dtype_bytes(whole.dtype);
      copy.in_stride = stride_of(part);
      copy.out_stride = stride_of(whole);
      copy.zeros = i + 1 == inputs ? copy.out_stride - static_cast<int>(offset) : 0;
    }
    copies.push_back(copy);
  }
  return copies;
}

class ConcatCudaKernels : public OpKernels {
 public:
  Offer offer(const OpQuery& query, Pass) const override { return {cuda_declines(query.dtype), 0}; }

  Call prepare(const Binding& binding, KernelContext& context) const override {
    const DType dtype = binding.tensor(binding.pass == Pass::BACKWARD ? Port::DY : Port::Y).dtype;
    return [stream = cuda(context).stream, dtype, copies = copies_of(binding)] {
      for (const ChannelCopy& copy : copies) launch_channel_copy(dtype, copy, stream);
    };
  }
};

}  // namespace

std::unique_ptr<OpKernels> concat_cuda_kernels();
std::unique_ptr<OpKernels> concat_cuda_kernels() { return std::make_unique<ConcatCudaKernels>(); }

}  // namespace tr
