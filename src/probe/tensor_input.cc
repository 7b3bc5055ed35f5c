#include "probe/tensor_input.h"

#include <cmath>

namespace paramedic::probe {

std::optional<stats::TensorView> view_of(const paramedic_tensor& tensor) {
  if (tensor.dtype >= stats::kDTypeCount || tensor.ndim > stats::kMaxDims) return std::nullopt;
  if (!std::isfinite(tensor.divisor) || tensor.divisor < 0) return std::nullopt;
  stats::TensorView view;
  view.data = reinterpret_cast<const void*>(static_cast<uintptr_t>(tensor.data));
  view.dtype = static_cast<stats::DType>(tensor.dtype);
  view.ndim = tensor.ndim;
  int64_t count = 1;
  for (uint32_t i = 0; i < view.ndim; i++) {
    view.sizes[i] = tensor.sizes[i];
    view.strides[i] = tensor.strides[i];
    if (view.sizes[i] < 0 || __builtin_mul_overflow(count, view.sizes[i], &count)) {
      return std::nullopt;
    }
  }
  int64_t bytes = 0;
  const auto element_bytes = static_cast<int64_t>(stats::dtype_bytes(view.dtype));
  if (__builtin_mul_overflow(count, element_bytes, &bytes)) return std::nullopt;
  if (count > 0 && view.data == nullptr) return std::nullopt;
  return view;
}

int64_t element_count(const stats::TensorView& view) {
  int64_t count = 1;
  for (uint32_t i = 0; i < view.ndim; i++) count *= view.sizes[i];
  return count;
}

bool is_row_major(const stats::TensorView& view) {
  int64_t expected = 1;
  for (uint32_t i = view.ndim; i-- > 0;) {
    if (view.sizes[i] != 1 && view.strides[i] != expected) return false;
    expected *= view.sizes[i];
  }
  return true;
}

double divisor_of(const paramedic_tensor& tensor) {
  return tensor.divisor == 0 ? 1.0 : tensor.divisor;
}

ElementWalk::ElementWalk(const stats::TensorView& view)
    : view_(view), element_bytes_(static_cast<int64_t>(stats::dtype_bytes(view.dtype))) {}

const void* ElementWalk::get() const {
  return static_cast<const std::byte*>(view_.data) + offset_ * element_bytes_;
}

void ElementWalk::next() {
  for (uint32_t i = view_.ndim; i-- > 0;) {
    offset_ += view_.strides[i];
    if (++index_[i] < view_.sizes[i]) return;
    offset_ -= view_.strides[i] * view_.sizes[i];
    index_[i] = 0;
  }
}

}  // namespace paramedic::probe
