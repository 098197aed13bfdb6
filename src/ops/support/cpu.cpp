#include "ops/support/cpu.h"

#include <omp.h>

namespace tr {

ThreadsOf::ThreadsOf(const Target& target) : before_(omp_get_max_threads()) {
  omp_set_num_threads(target.threads > 0 ? target.threads : omp_get_num_procs());
}
ThreadsOf::~ThreadsOf() { omp_set_num_threads(before_); }

dnnl::engine offer_engine() { return dnnl::engine(dnnl::engine::kind::cpu, 0); }

struct DnnlCall::Bound {
  dnnl::primitive primitive;
  dnnl::stream stream;
  std::vector<dnnl::memory> memories;
  std::vector<dnnl_exec_arg_t> arguments;
};

DnnlCall::DnnlCall(dnnl::primitive primitive, dnnl::stream stream,
                   std::initializer_list<std::pair<int, dnnl::memory>> arguments) {
  auto bound = std::make_shared<Bound>();
  bound->primitive = std::move(primitive);
  bound->stream = std::move(stream);
  for (const auto& [id, memory] : arguments) {
    bound->memories.push_back(memory);
    bound->arguments.push_back({id, memory.get()});
  }
  bound_ = std::move(bound);
}

void DnnlCall::operator()() const {
  // The C entry point: the C++ one builds a map and a vector in each call.
  const dnnl_status_t status =
      dnnl_primitive_execute(bound_->primitive.get(), bound_->stream.get(),
                             static_cast<int>(bound_->arguments.size()), bound_->arguments.data());
  TR_CHECK(status == dnnl_success, DeviceError, cat("oneDNN execute failed with status ", status));
}

dnnl::memory::dims nchw_dims(const Shape& shape) { return {shape.n(), shape.c(), shape.h(), shape.w()}; }

dnnl::memory::desc nhwc_desc(const Shape& shape) {
  return {nchw_dims(shape), dnnl::memory::data_type::f32, dnnl::memory::format_tag::nhwc};
}

}  // namespace tr
