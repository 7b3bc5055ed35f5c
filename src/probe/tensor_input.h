#pragma once
// What a caller of the C interface says about a tensor, checked and turned into a view; and a walk
// over the elements of such a view. Plain values.

#include <optional>

#include "probe/probe.h"
#include "stats/tensor_view.h"

namespace paramedic::probe {

// None if the tensor cannot be: unknown type, too many dimensions, a negative or overflowing size,
// no address, or a divisor that is negative, NaN or infinite.
std::optional<stats::TensorView> view_of(const paramedic_tensor& tensor);

// Elements of a checked view.
int64_t element_count(const stats::TensorView& view);

// Whether the elements lie in memory in row-major order without gaps.
bool is_row_major(const stats::TensorView& view);

// The divisor of the statistics: 1 where the caller gave none.
double divisor_of(const paramedic_tensor& tensor);

// Goes over the elements of any view in row-major order.
class ElementWalk {
 public:
  explicit ElementWalk(const stats::TensorView& view);
  // The address of the current element.
  [[nodiscard]] const void* get() const;
  void next();

 private:
  const stats::TensorView& view_;
  int64_t element_bytes_;
  int64_t offset_ = 0;  // elements
  int64_t index_[stats::kMaxDims] = {};
};

}  // namespace paramedic::probe
