"""Boxes, regions of images and deformable convolution, against plain Python; and the names by which torchvision calls them."""

import math

import numpy as np
import pytest

import facula
from facula import library
from facula.compat import packages
from facula.compat.dispatch import DispatchKey, DispatchKeySet

facula.ops.load_library("/anywhere/torchvision/_C.so")
vision = facula.ops.torchvision
rng = np.random.default_rng(7)


def boxes_of(count, size=20.0, dtype="float32"):
    corners = rng.uniform(0, size, (count, 2, 2))
    return np.concatenate([corners.min(1), corners.max(1)], 1).astype(dtype)


def rois_of(count, images, size, dtype="float64"):
    return np.concatenate([rng.integers(0, images, (count, 1)), boxes_of(count, size, dtype)], 1).astype(dtype)


def plain_nms(boxes, scores, threshold):
    order, kept = sorted(range(len(scores)), key=lambda i: -scores[i]), []
    for i in order:
        for k in kept:
            w = max(boxes.dtype.type(0), min(boxes[i, 2], boxes[k, 2]) - max(boxes[i, 0], boxes[k, 0]))
            h = max(boxes.dtype.type(0), min(boxes[i, 3], boxes[k, 3]) - max(boxes[i, 1], boxes[k, 1]))
            area = [(b[2] - b[0]) * (b[3] - b[1]) for b in (boxes[k], boxes[i])]
            if w * h / (area[0] + area[1] - w * h) > threshold:
                break
        else:
            kept.append(i)
    return kept


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [1, 17, 300])
def test_nms(dtype, count):
    boxes, scores = boxes_of(count, 6.0, dtype), rng.uniform(0, 1, count).astype(dtype)
    for threshold in (0.1, 0.3, 0.5, 0.9):
        kept = vision.nms(facula.from_numpy(boxes), facula.from_numpy(scores), threshold)
        assert kept.dtype == facula.int64 and kept.tolist() == plain_nms(boxes, scores, threshold)


def test_nms_at_the_edges():
    box = facula.tensor([[0.0, 0, 2, 2], [0, 0, 2, 1], [0, 0, 2, 2]])
    scores = facula.tensor([0.5, 0.9, 0.5])
    assert vision.nms(box, scores, 0.5).tolist() == [1, 0]  # half is not above one half; equal scores keep their order
    assert vision.nms(box, scores, 0.49).tolist() == [1]
    assert vision.nms(box, scores, 1.0).tolist() == [1, 0, 2]
    assert vision.nms(facula.empty(0, 4), facula.empty(0), 0.5).shape == (0,)
    assert len(vision.nms(facula.full((3, 4), math.nan), scores, 0.5)) == 3
    quantized = vision.qnms((box * 2).to(facula.int32), (scores * 10).to(facula.int32), 0.49)
    assert quantized.tolist() == [1]


def read_linearly(plane, y, x):
    height, width = plane.shape
    if y < -1 or y > height or x < -1 or x > width:
        return 0.0
    y, x = max(y, 0.0), max(x, 0.0)
    top, left = min(int(y), height - 1), min(int(x), width - 1)
    y, x = (top if top == height - 1 else y), (left if left == width - 1 else x)
    below, beside = min(top + 1, height - 1), min(left + 1, width - 1)
    dy, dx = y - top, x - left
    return (
        plane[top, left] * (1 - dy) * (1 - dx)
        + plane[top, beside] * (1 - dy) * dx
        + plane[below, left] * dy * (1 - dx)
        + plane[below, beside] * dy * dx
    )


def plain_align(images, rois, scale, rows, columns, sampling, shift, least, by_place=False):
    channels = images.shape[1] // (rows * columns if by_place else 1)
    out = np.zeros((len(rois), channels, rows, columns))
    for k, (n, *corners) in enumerate(rois):
        x1, y1, x2, y2 = (c * scale - shift for c in corners)
        height, width = max(y2 - y1, least), max(x2 - x1, least)
        down, across = sampling or math.ceil(height / rows), sampling or math.ceil(width / columns)
        for c, i, j in np.ndindex(channels, rows, columns):
            plane = images[int(n), c * rows * columns + i * columns + j if by_place else c]
            values = [
                read_linearly(
                    plane, y1 + (i + (a + 0.5) / down) * height / rows, x1 + (j + (b + 0.5) / across) * width / columns
                )
                for a in range(down)
                for b in range(across)
            ]
            out[k, c, i, j] = sum(values) / (len(values) if by_place else max(len(values), 1))
    return out


@pytest.mark.parametrize("channels", [1, 3, 40])  # few are read by planes, many side by side
@pytest.mark.parametrize("sampling", [0, 2])
@pytest.mark.parametrize("aligned", [False, True])
def test_roi_align(channels, sampling, aligned):
    images, rois = rng.normal(size=(2, channels, 9, 7)), rois_of(6, 2, 30.0)
    expected = plain_align(images, rois, 0.3, 3, 2, sampling, 0.5 * aligned, 0.0 if aligned else 1.0)
    for dtype, tolerance in (("float64", 1e-12), ("float32", 2e-5)):
        given = [facula.from_numpy(a.astype(dtype)) for a in (images, rois)]
        for form in (facula.contiguous_format, facula.channels_last):
            out = vision.roi_align(given[0].contiguous(memory_format=form), given[1], 0.3, 3, 2, sampling, aligned)
            assert out.is_contiguous()
            np.testing.assert_allclose(out.numpy(), expected, atol=tolerance)


def test_ps_roi_align():
    images, rois = rng.normal(size=(2, 18, 6, 7)), rois_of(5, 2, 7.0)
    out, channel = vision.ps_roi_align(facula.from_numpy(images), facula.from_numpy(rois), 0.8, 3, 2, 2)
    np.testing.assert_allclose(out.numpy(), plain_align(images, rois, 0.8, 3, 2, 2, 0.5, -99.0, True), atol=1e-12)
    assert channel.dtype == facula.int32 and channel[0].flatten().tolist() == list(range(18))


def edges(begin, end, bins, bin, last):
    length = (end - begin) / bins
    return [min(max(math.floor(bin * length) + begin, 0), last), min(max(math.ceil((bin + 1) * length) + begin, 0), last)]


@pytest.mark.parametrize("mean", [False, True])
def test_roi_pool(mean):
    images, rois = rng.normal(size=(2, 12, 6, 7)), rois_of(6, 2, 9.0)
    pool = vision.ps_roi_pool if mean else vision.roi_pool
    out, second = pool(facula.from_numpy(images), facula.from_numpy(rois), 0.7, 3, 2)
    assert second.dtype == facula.int32
    for k, c, i, j in np.ndindex(6, 2 if mean else 12, 3, 2):
        n, x1, y1, x2, y2 = int(rois[k, 0]), *(int(math.floor(v * 0.7 + 0.5)) for v in rois[k, 1:])
        more = 0 if mean else 1
        y = edges(y1, max(y2 + more, y1 + 1), 3, i, 5 if mean else 6)
        x = edges(x1, max(x2 + more, x1 + 1), 2, j, 6 if mean else 7)
        part = images[n, c * 6 + i * 2 + j if mean else c, slice(*y), slice(*x)]
        if part.size == 0:
            assert out[k, c, i, j] == 0
        elif mean:
            np.testing.assert_allclose(out[k, c, i, j].item(), part.mean(), atol=1e-12)
        else:
            assert out[k, c, i, j].item() == part.max() == images[n, c].flat[second[k, c, i, j].item()]


def plain_deform(images, weight, offset, mask, bias, stride, padding, dilation, groups, offset_groups):
    outputs, per_group, kh, kw = weight.shape
    out = np.zeros((len(images), outputs, *offset.shape[2:]))
    for n, o, y, x in np.ndindex(*out.shape):
        total = bias[o]
        for c, i, j in np.ndindex(per_group, kh, kw):
            channel = o // (outputs // groups) * per_group + c
            tap = channel // (images.shape[1] // offset_groups) * kh * kw + i * kw + j
            at = (
                y * stride - padding + i * dilation + offset[n, 2 * tap, y, x],
                x * stride - padding + j * dilation + offset[n, 2 * tap + 1, y, x],
            )
            top, left = math.floor(at[0]), math.floor(at[1])
            for row, column in ((top, left), (top, left + 1), (top + 1, left), (top + 1, left + 1)):
                if 0 <= row < images.shape[2] and 0 <= column < images.shape[3]:
                    share = (1 - abs(at[0] - row)) * (1 - abs(at[1] - column))
                    total += weight[o, c, i, j] * images[n, channel, row, column] * share * mask[n, tap, y, x]
        out[n, o, y, x] = total
    return out


def deform_arguments(groups, offset_groups, stride=1, padding=1, dilation=1):
    images, weight = rng.normal(size=(2, 6, 5, 6)), rng.normal(size=(4, 6 // groups, 3, 2))
    size = [(n + 2 * padding - dilation * (k - 1) - 1) // stride + 1 for n, k in ((5, 3), (6, 2))]
    offset = rng.uniform(-1.9, 1.9, (2, 2 * offset_groups * 6, *size))
    return images, weight, offset, rng.uniform(0, 1, (2, offset_groups * 6, *size)), rng.normal(size=4)


@pytest.mark.parametrize("groups, offset_groups", [(1, 1), (2, 1), (1, 3), (2, 3)])
@pytest.mark.parametrize("stride, padding, dilation", [(1, 0, 1), (2, 1, 1), (1, 2, 2)])
def test_deform_conv2d(groups, offset_groups, stride, padding, dilation):
    arrays = deform_arguments(groups, offset_groups, stride, padding, dilation)
    window = (stride, stride, padding, padding, dilation, dilation, groups, offset_groups)
    given = [facula.from_numpy(a) for a in arrays]
    out = vision.deform_conv2d(*given, *window, True)
    np.testing.assert_allclose(out.numpy(), plain_deform(*arrays, *window[::2][:3], groups, offset_groups), atol=1e-11)
    out = vision.deform_conv2d(*given[:3], facula.zeros(2, 1, dtype=facula.float64), given[4], *window, False)
    arrays = (*arrays[:3], np.ones_like(arrays[3]), arrays[4])
    np.testing.assert_allclose(out.numpy(), plain_deform(*arrays, *window[::2][:3], groups, offset_groups), atol=1e-11)


def test_gradients_of_regions():
    rois = facula.from_numpy(rois_of(5, 2, 9.0))
    few, many = (facula.from_numpy(rng.normal(size=(2, c, 5, 6))).requires_grad_() for c in (2, 12))
    for images, op in [
        (few, lambda x: vision.roi_align(x, rois, 0.6, 2, 2, 2, True)),
        (many, lambda x: vision.roi_align(x, rois, 0.6, 2, 2, 0, False)),
        (few, lambda x: vision.roi_pool(x, rois, 0.6, 2, 2)[0]),
        (many, lambda x: vision.ps_roi_align(x, rois, 0.6, 3, 2, 2)[0]),
        (many, lambda x: vision.ps_roi_pool(x, rois, 0.6, 3, 2)[0]),
    ]:
        assert facula.autograd.gradcheck(op, (images,))
        assert facula.autograd.gradgradcheck(op, (images,))


def test_names_of_derivatives():
    images, rois = facula.from_numpy(rng.normal(size=(2, 12, 5, 6))).requires_grad_(), facula.from_numpy(rois_of(5, 2, 9.0))
    size = (2, 12, 5, 6)
    for name, more in (("roi_align", (2, True)), ("roi_pool", ()), ("ps_roi_align", (2,)), ("ps_roi_pool", ())):
        result = getattr(vision, name)(images, rois, 0.6, 3, 2, *more)
        out, *second = result if isinstance(result, tuple) else (result,)
        grad = facula.from_numpy(rng.normal(size=tuple(out.shape)))
        expected = facula.autograd.grad(out, images, grad)[0]
        extra = (*size, *more) if name == "roi_align" else (*more, *size)
        actual = getattr(vision, f"_{name}_backward")(grad, rois, *second, 0.6, 3, 2, *extra)
        assert facula.equal(actual, expected)


@pytest.mark.parametrize("groups, offset_groups", [(1, 1), (2, 3)])
def test_gradients_of_deform_conv2d(groups, offset_groups):
    given = [facula.from_numpy(a).requires_grad_() for a in deform_arguments(groups, offset_groups)]
    window = (1, 1, 1, 1, 1, 1, groups, offset_groups)
    assert facula.autograd.gradcheck(lambda *t: vision.deform_conv2d(*t, *window, True), given)
    out = vision.deform_conv2d(*given, *window, True)
    grad = facula.ones_like(out)
    expected = facula.autograd.grad(out, given, grad, retain_graph=True)
    plain = [t.detach() for t in given]
    for a, b in zip(vision._deform_conv2d_backward(grad, *plain, *window, True), expected):
        assert facula.equal(a, b)
    first = facula.autograd.grad(out.square().sum(), given[0], create_graph=True)[0]
    with pytest.raises(RuntimeError, match="deform_conv2d"):
        first.sum().backward()


def test_other_dtypes_and_meta():
    images, rois = facula.from_numpy(rng.normal(size=(1, 12, 5, 6))), facula.from_numpy(rois_of(3, 1, 5.0))
    for dtype, tolerance in ((facula.float16, 5e-3), (facula.bfloat16, 5e-2)):
        out = vision.roi_align(images.to(dtype), rois.round().to(dtype), 1.0, 2, 3, 2, True)
        assert out.dtype == dtype
        close = facula.testing.assert_close
        close(out.double(), vision.roi_align(images, rois.round(), 1.0, 2, 3, 2, True), atol=tolerance, rtol=tolerance)
    meta = images.to("meta"), rois.to("meta")
    assert vision.roi_align(*meta, 1.0, 2, 3, 2, True).shape == (3, 12, 2, 3)
    assert [tuple(t.shape) for t in vision.ps_roi_pool(*meta, 1.0, 2, 3)] == [(3, 2, 2, 3)] * 2
    assert [t.dtype for t in vision.roi_pool(*meta, 1.0, 2, 3)] == [facula.float64, facula.int32]
    with pytest.raises(NotImplementedError, match="^nms:"):
        vision.nms(meta[1][:, 1:], meta[1][:, 0], 0.5)


def test_autocast_gives_the_dtype_of_the_images_back():
    images = facula.from_numpy(rng.normal(size=(1, 2, 5, 6))).bfloat16()
    rois = facula.from_numpy(rois_of(3, 1, 5.0)).bfloat16()
    with facula.autocast("cpu", dtype=facula.bfloat16):
        out = vision.roi_align(images, rois, 1.0, 2, 2, 2, True)
        assert vision.nms(rois[:, 1:], rois[:, 2], 0.5).dtype == facula.int64
    expected = vision.roi_align(images.float(), rois.float(), 1.0, 2, 2, 2, True)
    assert out.dtype == facula.bfloat16 and facula.equal(out, expected.bfloat16())


def test_quantized_images():
    images, corners = rng.integers(0, 255, (1, 2, 6, 6)), np.sort(rng.integers(0, 60, (4, 4)))
    rois = np.concatenate([np.zeros((4, 1), int), corners], 1)
    out = vision.qroi_align(facula.from_numpy(images).byte(), facula.from_numpy(rois).byte(), 0.1, 5, 0.1, 0, 1.0, 2, 2, 2, True)
    expected = plain_align((images - 5) * 0.1, rois * 0.1, 1.0, 2, 2, 2, 0.5, 0.0) / 0.1 + 5
    assert out.dtype == facula.uint8 and np.abs(out.numpy() - expected).max() < 0.51
    with pytest.raises(RuntimeError, match="^qroi_align: "):
        vision.qroi_align(facula.ones(1, 2, 3, 3), facula.ones(1, 5), 0.1, 5, 0.1, 0, 1.0, 2, 2, 2, True)


def test_no_regions_and_no_bins():
    images, none = facula.ones(1, 4, 5, 6, requires_grad=True), facula.empty(0, 5)
    out = vision.roi_align(images, none, 1.0, 7, 7, 2, True)
    assert out.shape == (0, 4, 7, 7)
    out.sum().backward()
    assert facula.equal(images.grad, facula.zeros_like(images))
    assert vision.roi_pool(images, none, 1.0, 2, 2)[1].shape == (0, 4, 2, 2)
    assert vision.roi_align(images, facula.zeros(2, 5), 1.0, 0, 3, 2, True).shape == (2, 4, 0, 3)
    assert vision.box_iou_rotated(none, facula.ones(3, 5)).shape == (0, 3)


def test_rotated_boxes():
    def iou(a, b):
        return vision.box_iou_rotated(facula.tensor([a], dtype=facula.float64), facula.tensor([b], dtype=facula.float64)).item()

    assert iou([1, 1, 2, 2, 0], [1, 1, 2, 2, 90]) == pytest.approx(1)
    assert iou([0, 0, 2, 2, 0], [1, 0, 2, 2, 0]) == pytest.approx(1 / 3)
    assert iou([0, 0, 4, 2, 0], [0, 0, 4, 2, 90]) == pytest.approx(4 / 12)
    eight = 8 * (math.sqrt(2) - 1)  # two squares across each other have a regular octagon in common
    assert iou([5, 5, 2, 2, 0], [5, 5, 2, 2, 45]) == pytest.approx(eight / (8 - eight))
    assert iou([0, 0, 2, 4, 30], [9, 0, 2, 4, 30]) == 0 == iou([0, 0, 0, 4, 30], [0, 0, 2, 4, 30])
    # counter-clockwise, with y pointing down: the left end of a long box goes down
    assert iou([0, 0, 10, 1, 30], [-4.33, 2.5, 1, 1, 30]) > 0.04 and iou([0, 0, 10, 1, 30], [-4.33, -2.5, 1, 1, 30]) == 0


HOSTILE = {
    "rois of four numbers": ("roi_align", RuntimeError, lambda x, r: vision.roi_align(x, r[:, :4], 1.0, 2, 2, 2, True)),
    "another dtype": ("roi_align", RuntimeError, lambda x, r: vision.roi_align(x, r.double(), 1.0, 2, 2, 2, True)),
    "an image without batch": ("roi_pool", RuntimeError, lambda x, r: vision.roi_pool(x[0], r, 1.0, 2, 2)),
    "an image that is not there": ("roi_align", IndexError, lambda x, r: vision.roi_align(x, r + 2, 1.0, 2, 2, 2, True)),
    "a negative image": ("ps_roi_pool", IndexError, lambda x, r: vision.ps_roi_pool(x, r - 3, 1.0, 2, 2)),
    "no number of an image": ("roi_pool", IndexError, lambda x, r: vision.roi_pool(x, r * math.nan, 1.0, 2, 2)),
    "negative bins": ("roi_align", RuntimeError, lambda x, r: vision.roi_align(x, r, 1.0, -2, 2, 2, True)),
    "more bins than memory": ("", RuntimeError, lambda x, r: vision.roi_align(x, r, 1.0, 2**31, 2**30, 2, True)),
    "bins beyond 64 bits": ("roi_align", RuntimeError, lambda x, r: vision.roi_align(x, r, 1.0, 2**62, 2**62, 2, True)),
    "points without end": ("roi_align", RuntimeError, lambda x, r: vision.roi_align(x, r, 1.0, 2, 2, 2**40, True)),
    "integers": ("roi_align", NotImplementedError, lambda x, r: vision.roi_align(x.int(), r.int(), 1.0, 2, 2, 2, True)),
    "channels that do not fit": ("ps_roi_align", RuntimeError, lambda x, r: vision.ps_roi_align(x, r, 1.0, 3, 3, 2)),
    "no pixels": ("roi_align", RuntimeError, lambda x, r: vision.roi_align(x[:, :, :0], r, 1.0, 2, 2, 2, True)),
    "maxima outside": (
        "roi_pool",
        IndexError,
        lambda x, r: vision._roi_pool_backward(
            facula.ones(3, 4, 2, 2), r, facula.full((3, 4, 2, 2), 99, dtype=facula.int32), 1.0, 2, 2, 2, 4, 5, 6
        ),
    ),
    "a gradient of another shape": (
        "roi_align",
        RuntimeError,
        lambda x, r: vision._roi_align_backward(facula.ones(3, 4, 2, 3), r, 1.0, 2, 2, 2, 4, 5, 6, 2, True),
    ),
    "negative sizes": (
        "roi_align",
        RuntimeError,
        lambda x, r: vision._roi_align_backward(facula.ones(3, 4, 2, 2), r, 1.0, 2, 2, -2, 4, 5, 6, 2, True),
    ),
    "boxes of five numbers": ("nms", RuntimeError, lambda x, r: vision.nms(r, r[:, 0], 0.5)),
    "too few scores": ("nms", RuntimeError, lambda x, r: vision.nms(r[:, 1:], r[:2, 0], 0.5)),
    "boxes that are not rotated": ("box_iou_rotated", RuntimeError, lambda x, r: vision.box_iou_rotated(r[:, 1:], r)),
    "half boxes": ("nms", NotImplementedError, lambda x, r: vision.nms(r[:, 1:].half(), r[:, 0].half(), 0.5)),
    "boxes that are no tensor": ("torchvision::nms", RuntimeError, lambda x, r: vision.nms([[0, 0, 1, 1]], r[:, 0], 0.5)),
    "bins that are no number": ("torchvision::roi_pool", RuntimeError, lambda x, r: vision.roi_pool(x, r, 1.0, "2", 2)),
    "too few arguments": ("torchvision::nms", RuntimeError, lambda x, r: vision.nms(r)),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_bad_input(case):
    name, error, call = HOSTILE[case]
    rois = facula.tensor([[0.0, 1, 1, 3, 3], [1, 0, 0, 2, 4], [1, 2, 2, 2, 2]])
    with pytest.raises(error, match=f"^{name}"):
        call(facula.ones(2, 4, 5, 6), rois)


@pytest.mark.parametrize("change", [
    {0: (2, 6, 5)}, {1: (4, 5, 3, 2)}, {1: (4, 6, 0, 2)}, {2: (2, 12, 5, 5)}, {2: (2, 11, 5, 7)}, {3: (2, 5, 5, 7)}, {4: (3,)},
    {"stride": 0}, {"padding": -1}, {"dilation": 2**62}, {"padding": 2**62}, {"groups": 0}, {"groups": 4}, {"offset_groups": 5},
])  # fmt: skip
def test_bad_deform_conv2d(change):
    shapes = {0: (2, 6, 5, 6), 1: (4, 6, 3, 2), 2: (2, 12, 5, 7), 3: (2, 6, 5, 7), 4: (4,)}
    window = {"stride": 1, "padding": 1, "dilation": 1, "groups": 1, "offset_groups": 1}
    tensors = [facula.ones(change.get(i, shape)) for i, shape in shapes.items()]
    s, p, d, g, o = (change.get(name, value) for name, value in window.items())
    with pytest.raises(RuntimeError, match="^deform_conv2d:"):
        vision.deform_conv2d(*tensors, s, s, p, p, d, d, g, o, True)


def test_places_that_are_no_numbers():
    images = facula.ones(1, 9, 5, 6)
    rois = facula.tensor([[0, math.nan, 1, 2, 2], [0, 1, 1, math.inf, 2], [0, -1e30, -1e30, 1e30, 1e30], [0, 1, 1, 3, 3]])
    out = vision.roi_align(images, rois, 1.0, 2, 2, 0, True)
    assert out[:2].isnan().all() and (out[3] == 1).all() and not out[2].isnan().any()
    maxima, places = vision.roi_pool(images, rois, 1.0, 2, 2)
    assert maxima[:2].isnan().all() and (places[:2] == -1).all() and (maxima[3] == 1).all()
    grad = vision._roi_align_backward(facula.ones(4, 9, 2, 2), rois, 1.0, 2, 2, 1, 9, 5, 6, 0, True)
    assert grad.isfinite().all()
    offset = facula.zeros(1, 2, 5, 6)
    offset[0, :, 0, 0], offset[0, :, 1, 1], offset[0, :, 2, 2] = math.nan, math.inf, 1e30
    window = (1, 1, 0, 0, 1, 1, 1, 1, False)
    given = [images, facula.ones(2, 9, 1, 1), offset, facula.zeros(1, 1), facula.zeros(2)]
    assert vision.deform_conv2d(*given, *window)[0, :, 2, 2].tolist() == [0, 0]
    for result in vision._deform_conv2d_backward(facula.ones(1, 2, 5, 6), *given, *window):
        assert result.shape is not None


def test_schemas_and_registrations():
    assert str(vision.nms.default._schema) == "torchvision::nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
    assert vision._cuda_version() == -1
    boxes = facula.tensor([[0.0, 0, 1, 1]])
    assert vision.nms(dets=boxes, iou_threshold=0.5, scores=facula.ones(1)).tolist() == [0]
    # what a package registers of such an operator is not needed, and accepted
    library.register_autograd("torchvision::roi_align", None, setup_context=None)
    library.register_fake("torchvision::nms", lambda *a: None)
    library.Library("torchvision", "IMPL", "Meta").impl(vision.roi_align.default, lambda *a: None)
    library.Library("torchvision", "IMPL").impl("nms", lambda *a: None, "AutocastCPU")
    assert vision.nms(boxes, facula.ones(1), 0.5).tolist() == [0]


def test_an_operator_can_be_taken_over():
    packages.provide("test_vision::twice(Tensor a, int times=2) -> Tensor", lambda a, times: a * times)
    twice = facula.ops.test_vision.twice
    assert twice(facula.ones(1)).item() == 2 and twice(facula.ones(1), times=3).item() == 3
    library.impl("test_vision::twice", "CPU", lambda a, times=2: a - times)
    assert twice(facula.ones(1)).item() == -1
    packages.provide("test_vision::twice(Tensor a, int times=2) -> Tensor", lambda a, times: a * times)
    assert twice(facula.ones(1)).item() == -1  # a program that came first


def test_a_kernel_for_a_region_of_autocast():
    op = library.custom_op("test_vision::dtype_of", lambda x: str(x.dtype), mutates_args=())
    keys = DispatchKeySet(DispatchKey("AutocastCPU"))

    def in_region(x):
        with library.ExcludeDispatchKeyGuard(keys):
            assert not facula.is_autocast_enabled("cpu")
            return "in a region, " + op(x)

    library.Library("test_vision", "IMPL").impl("dtype_of", in_region, "AutocastCPU")
    assert op(facula.ones(1)) == "torch.float32"
    with facula.autocast("cpu"):
        assert op(facula.ones(1)) == "in a region, torch.float32"
        assert facula.is_autocast_enabled("cpu")
    with pytest.raises(NotImplementedError, match="^_ExcludeDispatchKeyGuard"):
        library.ExcludeDispatchKeyGuard(DispatchKeySet(DispatchKey("Sparse")))


def test_libraries_that_nothing_stands_for():
    for path in ("/anywhere/other/_C.so", "/anywhere/mytorchvision/_C.so", "torchvision/_D.so"):
        with pytest.raises(OSError, match=r"_[CD]\.so"):
            facula.ops.load_library(path)
