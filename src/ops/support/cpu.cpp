#include "ops/support/cpu.h"

#include <omp.h>

#include <string_view>

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

dnnl::memory::desc nhwc_desc(const Shape& shape, DType dtype) {
  return {nchw_dims(shape), dnnl_type(dtype), dnnl::memory::format_tag::nhwc};
}

dnnl::memory::data_type dnnl_type(DType dtype) {
  TR_CHECK(dtype == DType::FP32 || dtype == DType::BF16, TypeError,
           cat("oneDNN on the cpu: ", dtype_name(dtype), "; expected fp32 or bf16"));
  return dtype == DType::FP32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
}

std::string dnnl_declines(const OpQuery& query) {
  if (query.dtype == DType::FP32) return {};
  const auto needed = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  const bool multiplies = (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & needed) == needed;
  const bool padded = query.reads_network_input && query.x[0].c() % 4 != 0;
  if (query.dtype != DType::BF16 || !multiplies)
    return cat("this cpu has no instructions for products in ", dtype_name(query.dtype));
  return padded ? "oneDNN takes no padded channels" : "";
}

std::string dnnl_declines(const OpQuery& query, const dnnl::primitive_desc_base& desc) {
  const bool is_slow = std::string_view(desc.impl_info_str()).starts_with("ref");
  return query.dtype == DType::BF16 && is_slow ? "oneDNN has only a reference implementation in bf16" : "";
}

}  // namespace tr
