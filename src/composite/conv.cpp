// The public convolutions: batch dimension, 'same' padding, and argument order around `convolution`.
#include "ops/conv.h"

#include "core/checked.h"
#include "core/near_name.h"
#include "functions.h"

namespace facula {
namespace {

const char* const kConv[] = {"", "conv1d", "conv2d", "conv3d"};
const char* const kConvTranspose[] = {"", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"};

// Runs `f` on an input with a batch dimension, which it adds and removes when there is none.
template <class F>
Tensor with_batch(const char* op, int64_t spatial, const Tensor& input, F&& f) {
  FACULA_CHECK(input.dim() == spatial + 1 || input.dim() == spatial + 2, ErrorKind::Runtime, op, ": input must have ",
               spatial + 2, " dimensions, or ", spatial + 1, " without batch, got shape ", input.sizes());
  if (input.dim() == spatial + 2) return f(input);
  return squeeze(f(unsqueeze(input, 0)), 0);
}

Tensor conv(int64_t spatial, const Tensor& input, const Tensor& weight, const Tensor& bias, IntList stride,
            IntList padding, IntList dilation, int64_t groups) {
  return with_batch(kConv[spatial], spatial, input, [&](const Tensor& x) {
    return convolution(x, weight, bias, stride, padding, dilation, false, Dims(1), groups);
  });
}

Tensor conv_transpose(int64_t spatial, const Tensor& input, const Tensor& weight, const Tensor& bias, IntList stride,
                      IntList padding, IntList output_padding, int64_t groups, IntList dilation) {
  return with_batch(kConvTranspose[spatial], spatial, input, [&](const Tensor& x) {
    return convolution(x, weight, bias, stride, padding, dilation, true, output_padding, groups);
  });
}

// An uneven total padding goes after the image: pad both ends by the larger half and leave out the first
// position.
Tensor conv_same(int64_t spatial, const Tensor& input, const Tensor& weight, const Tensor& bias, IntList stride,
                 IntList dilation, int64_t groups) {
  const char* op = kConv[spatial];
  for (int64_t s : stride)
    FACULA_CHECK(s == 1, ErrorKind::Runtime, op, ": padding='same' needs stride 1, got stride=", stride);
  FACULA_CHECK(weight.dim() == spatial + 2, ErrorKind::Runtime, op, ": weight must have ", spatial + 2,
               " dimensions, got shape ", weight.sizes());
  Dims step = per_dimension(dilation, spatial, op, "dilation"), padding(static_cast<size_t>(spatial));
  bool uneven = false;
  for (size_t d = 0; d < padding.size(); ++d) {
    const Checked reach = Checked(step[d]) * (weight.sizes()[2 + d] - 1);
    const int64_t total = reach.get(op, "the dilated kernel", "dilation=", step);
    padding[d] = total / 2 + total % 2;
    uneven |= total % 2 != 0;
  }
  Tensor result = conv(spatial, input, weight, bias, stride, padding, dilation, groups);
  if (!uneven) return result;
  MemoryFormat format = result.suggest_memory_format();
  for (int64_t d = 0; d < spatial; ++d) {
    int64_t total = step[static_cast<size_t>(d)] * (weight.size(2 + d) - 1), at = result.dim() - spatial + d;
    if (total % 2) result = slice(result, at, 1, result.size(at), 1);
  }
  return contiguous(result, format);
}

Tensor conv_named(int64_t spatial, const Tensor& input, const Tensor& weight, const Tensor& bias, IntList stride,
                  std::string_view padding, IntList dilation, int64_t groups) {
  if (padding == "same") return conv_same(spatial, input, weight, bias, stride, dilation, groups);
  FACULA_CHECK(padding == "valid", ErrorKind::Runtime, kConv[spatial],
               ": padding must be an integer, a sequence of them, ", one_of({"valid", "same"}, padding));
  return conv(spatial, input, weight, bias, stride, Dims(1), dilation, groups);
}

}  // namespace

Tensor conv1d_uncast(const Tensor& input, const Tensor& weight, const Tensor& bias, IntList stride, IntList padding,
                     IntList dilation, int64_t groups) {
  return conv(1, input, weight, bias, stride, padding, dilation, groups);
}
Tensor conv2d_uncast(const Tensor& input, const Tensor& weight, const Tensor& bias, IntList stride, IntList padding,
                     IntList dilation, int64_t groups) {
  return conv(2, input, weight, bias, stride, padding, dilation, groups);
}
Tensor conv3d_uncast(const Tensor& input, const Tensor& weight, const Tensor& bias, IntList stride, IntList padding,
                     IntList dilation, int64_t groups) {
  return conv(3, input, weight, bias, stride, padding, dilation, groups);
}

Tensor conv1d_uncast(const Tensor& input, const Tensor& weight, const Tensor& bias, IntList stride,
                     std::string_view padding, IntList dilation, int64_t groups) {
  return conv_named(1, input, weight, bias, stride, padding, dilation, groups);
}
Tensor conv2d_uncast(const Tensor& input, const Tensor& weight, const Tensor& bias, IntList stride,
                     std::string_view padding, IntList dilation, int64_t groups) {
  return conv_named(2, input, weight, bias, stride, padding, dilation, groups);
}
Tensor conv3d_uncast(const Tensor& input, const Tensor& weight, const Tensor& bias, IntList stride,
                     std::string_view padding, IntList dilation, int64_t groups) {
  return conv_named(3, input, weight, bias, stride, padding, dilation, groups);
}

Tensor conv_transpose1d_uncast(const Tensor& input, const Tensor& weight, const Tensor& bias, IntList stride,
                               IntList padding, IntList output_padding, int64_t groups, IntList dilation) {
  return conv_transpose(1, input, weight, bias, stride, padding, output_padding, groups, dilation);
}
Tensor conv_transpose2d_uncast(const Tensor& input, const Tensor& weight, const Tensor& bias, IntList stride,
                               IntList padding, IntList output_padding, int64_t groups, IntList dilation) {
  return conv_transpose(2, input, weight, bias, stride, padding, output_padding, groups, dilation);
}
Tensor conv_transpose3d_uncast(const Tensor& input, const Tensor& weight, const Tensor& bias, IntList stride,
                               IntList padding, IntList output_padding, int64_t groups, IntList dilation) {
  return conv_transpose(3, input, weight, bias, stride, padding, output_padding, groups, dilation);
}

Tensor conv_tbc_uncast(const Tensor& self, const Tensor& weight, const Tensor& bias, int64_t pad) {
  FACULA_CHECK(self.dim() == 3, ErrorKind::Runtime, "conv_tbc: input must be (time, batch, channels), got shape ",
               self.sizes());
  FACULA_CHECK(weight.dim() == 3, ErrorKind::Runtime,
               "conv_tbc: weight must be (kernel, channels, outputs), got shape ", weight.sizes());
  FACULA_CHECK(bias.dim() == 1, ErrorKind::Runtime, "conv_tbc: bias must have one dimension, got shape ", bias.sizes());
  FACULA_CHECK(self.size(2) == weight.size(1), ErrorKind::Runtime, "conv_tbc: input has ", self.size(2),
               " channels, got a weight of shape ", weight.sizes());
  FACULA_CHECK(weight.size(2) == bias.size(0), ErrorKind::Runtime, "conv_tbc: bias must have ", weight.size(2),
               " elements, got shape ", bias.sizes());
  Tensor result =
      convolution(permute(self, {1, 2, 0}), permute(weight, {2, 1, 0}), bias, {1}, {pad}, {1}, false, {0}, 1);
  return contiguous(permute(result, {2, 0, 1}), MemoryFormat::Contiguous);
}

}  // namespace facula
