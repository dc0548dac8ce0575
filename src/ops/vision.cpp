// Shapes and checks of ops on boxes, and deformable convolution as products of columns.
#include "ops/vision.h"

#include "core/checked.h"
#include "ops/contiguous.h"
#include "ops/conv.h"
#include "ops/matmul.h"
#include "raw_sort.h"
#include "raw_vision.h"

namespace facula::ops {
namespace {

void check_boxes(const char* op, const char* name, const Tensor& boxes, int64_t numbers) {
  FACULA_CHECK(boxes.dim() == 2 && boxes.size(1) == numbers, ErrorKind::Runtime, op, ": ", name,
               " must have shape [N, ", numbers, "], got ", boxes.sizes());
  FACULA_CHECK(boxes.dtype() == DType::Float32 || boxes.dtype() == DType::Float64, ErrorKind::NotImplemented, op,
               ": not implemented for dtype ", boxes.dtype());
}

void check_alike(const char* op, const Tensor& a, const Tensor& b) {
  FACULA_CHECK(a.device() == b.device() && a.dtype() == b.dtype(), ErrorKind::Runtime, op,
               ": tensors must have one dtype and device, got ", a.dtype(), " on ", a.device(), " and ", b.dtype(),
               " on ", b.device());
}

}  // namespace

Tensor nms(const Tensor& dets, const Tensor& scores, double iou_threshold) {
  const char* op = "nms";
  check_boxes(op, "boxes", dets, 4);
  FACULA_CHECK(scores.dim() == 1 && scores.size(0) == dets.size(0), ErrorKind::Runtime, op,
               ": scores must have one dimension with as many elements as there are boxes, ", dets.size(0),
               ", got shape ", scores.sizes());
  check_alike(op, dets, scores);
  FACULA_CHECK(!dets.is_meta(), ErrorKind::NotImplemented, op,
               ": which boxes are kept depends on values, which meta tensors have not, got shape ", dets.sizes());
  if (dets.numel() == 0) return facula::empty({0}, DType::Int64, dets.device());
  const Tensor order = argsort(scores, 0, true), selected = facula::empty({dets.size(0)}, DType::Int64, dets.device());
  const int64_t count = nms_kernel(dets.device(), selected, as_contiguous(dets), as_contiguous(order), iou_threshold);
  return contiguous_copy(make_view(selected, {count}, {1}, 0, false));
}

Tensor box_iou_rotated(const Tensor& boxes1, const Tensor& boxes2) {
  const char* op = "box_iou_rotated";
  check_boxes(op, "boxes1", boxes1, 5);
  check_boxes(op, "boxes2", boxes2, 5);
  check_alike(op, boxes1, boxes2);
  Tensor result = facula::empty({boxes1.size(0), boxes2.size(0)}, boxes1.dtype(), boxes1.device());
  if (!result.is_meta() && result.numel())
    rotated_iou_kernel(result.device(), result, as_contiguous(boxes1), as_contiguous(boxes2));
  return result;
}

namespace {

constexpr const char* kDeform = "deform_conv2d";

// The arguments of a deformable convolution, checked.
struct Deformable {
  DeformPlan plan;
  int64_t batch = 0, outputs = 0, group_channels = 0, item = 0;
  DType dtype = DType::Float32;  // computed with
  Tensor images, weight, offset, mask;

  int64_t inner() const { return plan.taps() * group_channels; }
  Dims result() const { return {batch, outputs, plan.out_height, plan.out_width}; }
  const void* image(int64_t n) const { return images.data<char>() + n * images.stride(0) * item; }
  void at(int64_t n, int64_t from, int64_t to) {
    plan.from = from;
    plan.to = to;
    plan.offset = offset.data<char>() + n * offset.stride(0) * item;
    plan.mask = mask.defined() ? mask.data<char>() + n * mask.stride(0) * item : nullptr;
  }
};

void read_side(DeformPlan& plan, int side, int64_t in, int64_t kernel, IntList geometry) {
  const auto at = static_cast<size_t>(side);
  const int64_t stride = geometry[at], padding = geometry[2 + at], dilation = geometry[4 + at];
  FACULA_CHECK(stride > 0 && padding >= 0 && dilation > 0, ErrorKind::Runtime, kDeform,
               ": stride and dilation must be positive and padding not negative, got ", stride, ", ", dilation, " and ",
               padding);
  const int64_t room = (Checked(in) + Checked(2) * padding - (Checked(dilation) * (kernel - 1) + 1))
                           .get(kDeform, "the room for windows", "padding=", padding, ", dilation=", dilation);
  FACULA_CHECK(room >= 0, ErrorKind::Runtime, kDeform, ": the result would have no positions: a size of ", in,
               ", padding=", padding, ", dilation=", dilation, ", got a kernel size of ", kernel);
  plan.stride[side] = stride;
  plan.padding[side] = padding;
  plan.dilation[side] = dilation;
  (side ? plan.out_width : plan.out_height) = room / stride + 1;
}

void check_shape(const char* name, const Tensor& t, IntList expected) {
  FACULA_CHECK(t.sizes() == expected, ErrorKind::Runtime, kDeform, ": ", name, " must have shape ", expected, ", got ",
               t.sizes());
}

void check_groups(const Tensor& input, const Tensor& weight, int64_t groups, int64_t offset_groups) {
  FACULA_CHECK(input.dim() == 4, ErrorKind::Runtime, kDeform, ": input must be (N, C, H, W), got shape ",
               input.sizes());
  FACULA_CHECK(weight.dim() == 4 && weight.size(2) > 0 && weight.size(3) > 0, ErrorKind::Runtime, kDeform,
               ": weight must be (O, C / groups, kH, kW), got shape ", weight.sizes());
  FACULA_CHECK(groups > 0 && input.size(1) % groups == 0 && weight.size(1) == input.size(1) / groups &&
                   weight.size(0) % groups == 0,
               ErrorKind::Runtime, kDeform, ": with an input of shape ", input.sizes(), " and groups=", groups,
               ", the weight must be (O, C / groups, kH, kW) with O a multiple of groups, got ", weight.sizes());
  FACULA_CHECK(offset_groups > 0 && input.size(1) % offset_groups == 0, ErrorKind::Runtime, kDeform,
               ": offset groups must divide the ", input.size(1), " channels of input, got ", offset_groups);
}

Deformable read_deformable(const Tensor& input, const Tensor& weight, const Tensor& offset, const Tensor& mask,
                           IntList geometry, int64_t groups, int64_t offset_groups, bool use_mask) {
  FACULA_CHECK(geometry.size() == 6, ErrorKind::Runtime, kDeform, ": geometry must have six numbers, got ", geometry);
  check_groups(input, weight, groups, offset_groups);
  for (const Tensor* t : {&weight, &offset, &mask}) check_alike(kDeform, input, *t);
  FACULA_CHECK(is_floating(input.dtype()) && !is_float8(input.dtype()), ErrorKind::NotImplemented, kDeform,
               ": not implemented for dtype ", input.dtype());
  Deformable d;
  DeformPlan& p = d.plan;
  d.batch = input.size(0);
  d.outputs = weight.size(0);
  d.group_channels = weight.size(1);
  d.dtype = compute_dtype(input.dtype());
  d.item = item_size(d.dtype);
  p.channels = input.size(1);
  p.height = input.size(2);
  p.width = input.size(3);
  p.kernel_height = weight.size(2);
  p.kernel_width = weight.size(3);
  p.groups = groups;
  p.offset_groups = offset_groups;
  read_side(p, 0, p.height, p.kernel_height, geometry);
  read_side(p, 1, p.width, p.kernel_width, geometry);
  const int64_t places = (Checked(offset_groups) * p.kernel_height * p.kernel_width * 2)
                             .get(kDeform, "the number of offsets", "offset groups ", offset_groups);
  check_shape("offset", offset, {d.batch, places, p.out_height, p.out_width});
  if (use_mask) check_shape("mask", mask, {d.batch, places / 2, p.out_height, p.out_width});
  if (input.is_meta()) return d;
  d.images = as_contiguous(input, MemoryFormat::ChannelsLast, d.dtype);
  d.weight = as_contiguous(weight, MemoryFormat::ChannelsLast, d.dtype);
  d.offset = as_contiguous(offset, d.dtype);
  if (use_mask) d.mask = as_contiguous(mask, d.dtype);
  return d;
}

/// f(image, first position, end, columns) over blocks of positions whose columns stay in cache.
template <class F>
void for_column_blocks(Deformable& d, F f) {
  constexpr int64_t kBlockBytes = 4 << 20, kShortest = 128;
  const int64_t positions = d.plan.positions();
  const int64_t row = (Checked(d.plan.taps()) * d.plan.channels * d.item).get(kDeform, "the bytes of a column");
  const int64_t block = std::min(positions, std::max(kShortest, kBlockBytes / std::max<int64_t>(row, 1)));
  const Tensor columns = facula::empty({block, d.plan.taps(), d.plan.channels}, d.dtype, d.images.device());
  for (int64_t n = 0; n < d.batch; ++n) {
    for (int64_t from = 0; from < positions; from += block) {
      d.at(n, from, std::min(from + block, positions));
      f(n, from, std::min(block, positions - from), columns.data<char>());
    }
  }
}

// A product for every group.
MatrixProduct group_product(const Deformable& d, int64_t rows, int64_t columns, int64_t inner) {
  MatrixProduct m;
  m.dtype = d.dtype;
  m.batch = d.plan.groups;
  m.rows = rows;
  m.columns = columns;
  m.inner = inner;
  return m;
}

}  // namespace

Tensor deform_conv2d(const Tensor& input, const Tensor& weight, const Tensor& offset, const Tensor& mask,
                     const Tensor& bias, int64_t stride_h, int64_t stride_w, int64_t pad_h, int64_t pad_w,
                     int64_t dilation_h, int64_t dilation_w, int64_t groups, int64_t offset_groups, bool use_mask) {
  Deformable d =
      read_deformable(input, weight, offset, mask, {stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w}, groups,
                      offset_groups, use_mask);
  check_alike(kDeform, input, bias);
  check_shape("bias", bias, {d.outputs});
  if (input.is_meta()) return facula::empty(d.result(), input.dtype(), input.device());
  Tensor result = facula::empty(d.result(), d.dtype, input.device());
  if (result.numel() == 0) return as_contiguous(result, input.dtype());
  const Device device = input.device();
  const int64_t per_group = d.outputs / groups, inner = d.inner(), positions = d.plan.positions();
  if (inner == 0) fill_kernel(device, result, Scalar(0));
  else
    for_column_blocks(d, [&](int64_t n, int64_t from, int64_t count, char* columns) {
      deform_columns_kernel(device, d.dtype, columns, d.image(n), d.plan);
      MatrixProduct m = group_product(d, per_group, count, inner);
      m.a = {d.weight.data<char>(), per_group * inner, inner, 1};
      m.b = {columns, count * inner, 1, inner};
      m.out = result.data<char>() + (n * d.outputs * positions + from) * d.item;
      m.out_batch = per_group * positions;
      m.out_row = positions;
      matrix_product_kernel(device, m);
    });
  add_channels_kernel(device, result, as_contiguous(bias, d.dtype));
  return as_contiguous(result, input.dtype());
}

namespace {

Tensor zeros_like_of(const Tensor& like, DType dtype, MemoryFormat format) {
  Tensor made = facula::empty_strided(like.sizes(), strides_of(like.sizes(), format, kDeform), dtype, like.device());
  if (made.numel()) fill_kernel(made.device(), made, Scalar(0));
  return made;
}

// The requested gradients, computed with; the others are undefined.
struct DeformGradients {
  Tensor image, weight, offset, mask;
};

void add_weight_gradient(Deformable& d, const DeformGradients& to, const Tensor& gradient, int64_t n, int64_t from,
                         int64_t count, char* columns) {
  const int64_t per_group = d.outputs / d.plan.groups, inner = d.inner(), positions = d.plan.positions();
  deform_columns_kernel(gradient.device(), d.dtype, columns, d.image(n), d.plan);
  MatrixProduct m = group_product(d, per_group, inner, count);
  m.a = {gradient.data<char>() + (n * d.outputs * positions + from) * d.item, per_group * positions, positions, 1};
  m.b = {columns, count * inner, inner, 1};
  m.out = to.weight.data<char>();
  m.out_batch = per_group * inner;
  m.out_row = inner;
  m.beta = 1;
  matrix_product_kernel(gradient.device(), m);
}

void add_image_gradients(Deformable& d, const DeformGradients& to, const Tensor& gradient, int64_t n, int64_t from,
                         int64_t count, char* columns) {
  const int64_t per_group = d.outputs / d.plan.groups, inner = d.inner(), positions = d.plan.positions();
  const Device device = gradient.device();
  MatrixProduct m = group_product(d, count, inner, per_group);
  m.a = {gradient.data<char>() + (n * d.outputs * positions + from) * d.item, per_group * positions, 1, positions};
  m.b = {d.weight.data<char>(), per_group * inner, inner, 1};
  m.out = columns;
  m.out_batch = count * inner;
  m.out_row = inner;
  matrix_product_kernel(device, m);
  auto part = [&](const Tensor& t) { return t.defined() ? t.data<char>() + n * t.stride(0) * d.item : nullptr; };
  if (to.image.defined()) deform_image_gradient_kernel(device, d.dtype, part(to.image), columns, d.plan);
  if (to.offset.defined() || to.mask.defined())
    deform_offset_gradient_kernel(device, d.dtype, part(to.offset), part(to.mask), columns, d.image(n), d.plan);
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor, Tensor> deform_conv2d_backward(const Tensor& self, const Tensor& input,
                                                                  const Tensor& weight, const Tensor& offset,
                                                                  const Tensor& mask, IntList geometry, int64_t groups,
                                                                  int64_t offset_groups, bool use_mask, bool of_input,
                                                                  bool of_weight, bool of_offset, bool of_mask) {
  Deformable d = read_deformable(input, weight, offset, mask, geometry, groups, offset_groups, use_mask);
  check_alike(kDeform, input, self);
  check_shape("the gradient of the result", self, d.result());
  const DType given = input.dtype();
  auto made = [&](bool requested, const Tensor& like, MemoryFormat format) {
    if (!requested) return facula::empty({0}, input.is_meta() ? given : d.dtype, input.device());
    return input.is_meta() ? facula::empty(like.sizes(), given, input.device()) : zeros_like_of(like, d.dtype, format);
  };
  const DeformGradients all{
      made(of_input, input, MemoryFormat::ChannelsLast), made(of_weight, weight, MemoryFormat::ChannelsLast),
      made(of_offset, offset, MemoryFormat::Contiguous), made(of_mask, mask, MemoryFormat::Contiguous)};
  if (!input.is_meta() && self.numel() && d.inner()) {
    const DeformGradients to{of_input ? all.image : Tensor(), of_weight ? all.weight : Tensor(),
                             of_offset ? all.offset : Tensor(), of_mask && use_mask ? all.mask : Tensor()};
    const Tensor gradient = as_contiguous(self, d.dtype);
    for_column_blocks(d, [&](int64_t n, int64_t from, int64_t count, char* columns) {
      if (to.weight.defined()) add_weight_gradient(d, to, gradient, n, from, count, columns);
      if (to.image.defined() || to.offset.defined() || to.mask.defined())
        add_image_gradients(d, to, gradient, n, from, count, columns);
    });
  }
  return {as_contiguous(all.image, given), as_contiguous(all.weight, given), as_contiguous(all.offset, given),
          as_contiguous(all.mask, given)};
}

}  // namespace facula::ops
