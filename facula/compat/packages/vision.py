"""Implement the operators of torchvision's library `_C` by their schemas, with the ops of ops/vision.yaml."""

import facula
from facula import _C

from . import in_input_dtype, provide

_ops = _C._ops

_IMAGE_SIZE = "SymInt batch_size, SymInt channels, SymInt height, SymInt width"
_POOLED = "float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_QUANTIZED = (
    "Tensor input, Tensor rois, float input_scale, int input_zero_point, float rois_scale, int rois_zero_point"
)
_MAPPED = "Tensor grad, Tensor rois, Tensor channel_mapping"
_OPERANDS = "Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias"
_WINDOWS = (
    "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, "
    "SymInt groups, SymInt offset_groups, bool use_mask"
)


def _without(position, function):
    """Return `function` without the argument at a position: channel mappings, which follow from the rest."""
    return lambda *args: function(*args[:position], *args[position + 1 :])


def _deform_conv2d_backward(grad, input, weight, offset, mask, bias, *more):
    *geometry, groups, offset_groups, use_mask = more
    image, kernel, moved, factor = _ops.deform_conv2d_backward(
        grad, input, weight, offset, mask, geometry, groups, offset_groups, use_mask, True, True, True, True
    )
    return image, kernel, moved, factor, grad.sum((0, 2, 3))


def _qnms(dets, scores, iou_threshold):
    """Take boxes as the integers of a quantized tensor: scale and zero point cancel out."""
    return _ops.nms(dets.to(facula.float64), scores.to(facula.float64), iou_threshold)


def _qroi_align(input, rois, input_scale, input_zero_point, rois_scale, rois_zero_point, *more):
    """Return the regions of an image of quantized numbers, with its scale and zero point again."""
    if input.dtype not in (facula.int8, facula.uint8, facula.int32) or rois.dtype != input.dtype:
        raise RuntimeError(f"qroi_align: input and rois must be integers of one dtype, got {input.dtype} and {rois.dtype}")
    numbers = (input.float() - input_zero_point) * input_scale
    boxes = (rois.float() - rois_zero_point) * rois_scale
    found = (_ops.roi_align(numbers, boxes, *more) / input_scale).round() + input_zero_point
    least = facula.iinfo(input.dtype)
    return found.clamp(least.min, least.max).to(input.dtype)


for _schema, _function in {
    "_cuda_version() -> int": lambda: -1,
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor": _ops.nms,
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor": _qnms,
    "box_iou_rotated(Tensor boxes1, Tensor boxes2) -> Tensor": _ops.box_iou_rotated,
    f"roi_align(Tensor input, Tensor rois, {_POOLED}, int sampling_ratio, bool aligned) -> Tensor": in_input_dtype(
        _ops.roi_align
    ),
    f"qroi_align({_QUANTIZED}, {_POOLED}, int sampling_ratio, bool aligned) -> Tensor": _qroi_align,
    f"_roi_align_backward(Tensor grad, Tensor rois, {_POOLED}, {_IMAGE_SIZE}, int sampling_ratio, bool aligned) -> Tensor":
        _ops.roi_align_backward,
    f"roi_pool(Tensor input, Tensor rois, {_POOLED}) -> (Tensor, Tensor)": in_input_dtype(_ops.roi_pool),
    f"_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, {_POOLED}, {_IMAGE_SIZE}) -> Tensor":
        _ops.roi_pool_backward,
    f"ps_roi_align(Tensor input, Tensor rois, {_POOLED}, int sampling_ratio) -> (Tensor, Tensor)": in_input_dtype(
        _ops.ps_roi_align
    ),
    f"_ps_roi_align_backward({_MAPPED}, {_POOLED}, int sampling_ratio, {_IMAGE_SIZE}) -> Tensor":
        _without(2, _ops.ps_roi_align_backward),
    f"ps_roi_pool(Tensor input, Tensor rois, {_POOLED}) -> (Tensor, Tensor)": in_input_dtype(_ops.ps_roi_pool),
    f"_ps_roi_pool_backward({_MAPPED}, {_POOLED}, {_IMAGE_SIZE}) -> Tensor":
        _without(2, _ops.ps_roi_pool_backward),
    f"deform_conv2d({_OPERANDS}, {_WINDOWS}) -> Tensor":
        in_input_dtype(_ops.deform_conv2d),
    f"_deform_conv2d_backward(Tensor grad, {_OPERANDS}, {_WINDOWS}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)":
        _deform_conv2d_backward,
}.items():  # fmt: skip
    provide(f"torchvision::{_schema}", _function)
