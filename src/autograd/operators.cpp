#include "functions.h"

namespace facula {

Tensor operator+(const Operand& a, const Operand& b) { return add(a, b, Scalar(1)); }
Tensor operator-(const Operand& a, const Operand& b) { return sub(a, b, Scalar(1)); }
Tensor operator*(const Operand& a, const Operand& b) { return mul(a, b); }
Tensor operator/(const Operand& a, const Operand& b) { return div(a, b); }
Tensor operator-(const Tensor& a) { return neg(a); }
Tensor operator==(const Tensor& a, const Operand& b) { return eq(a, b); }
Tensor operator!=(const Tensor& a, const Operand& b) { return ne(a, b); }
Tensor operator<(const Operand& a, const Operand& b) { return a.is_tensor() ? lt(a.tensor(), b) : gt(b.tensor(), a); }
Tensor operator<=(const Operand& a, const Operand& b) { return a.is_tensor() ? le(a.tensor(), b) : ge(b.tensor(), a); }
Tensor operator>(const Operand& a, const Operand& b) { return a.is_tensor() ? gt(a.tensor(), b) : lt(b.tensor(), a); }
Tensor operator>=(const Operand& a, const Operand& b) { return a.is_tensor() ? ge(a.tensor(), b) : le(b.tensor(), a); }
Tensor operator&(const Tensor& a, const Operand& b) { return bitwise_and(a, b); }
Tensor operator|(const Tensor& a, const Operand& b) { return bitwise_or(a, b); }

}  // namespace facula
