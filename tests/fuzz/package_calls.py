"""Calls of the operators that Facula provides for packages; `preamble.py` has their namespaces."""

import importlib.util

OPERATORS = """
vision.nms(x(6, 4), x(6), 0.5)
vision.nms(x(6, 4, low=0.0, high=4.0, dtype=facula.float64), x(6, dtype=facula.float64), 0.3)
vision.qnms(k(6, 4), k(6), 0.5)
vision.box_iou_rotated(x(3, 5, low=1.0, high=4.0), x(2, 5, low=1.0, high=4.0))
vision.roi_align(x(2, 3, 6, 5), x(3, 5, low=0.0, high=0.99), 4.0, 2, 3, 2, True)
vision.roi_align(x(2, 9, 6, 5), x(3, 5, low=0.0, high=0.99), 4.0, 2, 3, 0, False)
vision.qroi_align(k(1, 2, 4, 4, dtype=facula.uint8), k(2, 5, below=1, dtype=facula.uint8), 0.1, 5, 0.1, 0, 1.0, 2, 2, 2, True)
vision.roi_pool(x(2, 3, 6, 5), x(3, 5, low=0.0, high=0.99), 4.0, 2, 3)
vision.ps_roi_align(x(2, 12, 6, 5), x(3, 5, low=0.0, high=0.99), 4.0, 2, 3, 2)
vision.ps_roi_pool(x(2, 12, 6, 5), x(3, 5, low=0.0, high=0.99), 4.0, 2, 3)
vision._roi_align_backward(x(3, 2, 2, 3), x(3, 5, low=0.0, high=0.99), 4.0, 2, 3, 2, 2, 6, 5, 2, True)
vision._roi_pool_backward(x(3, 2, 2, 3), x(3, 5, low=0.0, high=0.99), k(3, 2, 2, 3, below=30, dtype=facula.int32), 4.0, 2, 3, 2, 2, 6, 5)
vision._ps_roi_align_backward(x(3, 2, 2, 3), x(3, 5, low=0.0, high=0.99), k(3, 2, 2, 3, dtype=facula.int32), 4.0, 2, 3, 2, 2, 12, 5, 4)
vision._ps_roi_pool_backward(x(3, 2, 2, 3), x(3, 5, low=0.0, high=0.99), k(3, 2, 2, 3, dtype=facula.int32), 4.0, 2, 3, 2, 12, 5, 4)
vision.deform_conv2d(x(2, 4, 6, 5), x(4, 2, 3, 2), x(2, 24, 4, 4), x(2, 12, 4, 4), x(4), 1, 1, 0, 0, 1, 1, 2, 2, True)
vision.deform_conv2d(x(1, 3, 6, 5), x(2, 3, 3, 3), x(1, 18, 3, 3), x(1, 1), x(2), 2, 2, 1, 1, 1, 1, 1, 1, False)
vision._deform_conv2d_backward(x(1, 2, 3, 3), x(1, 3, 6, 5), x(2, 3, 3, 3), x(1, 18, 3, 3), x(1, 1), x(2), 2, 2, 1, 1, 1, 1, 1, 1, False)
audio.forced_align(x(1, 6, 4), k(1, 3, below=4), facula.tensor([6]), facula.tensor([3]), 0)
audio.rnnt_loss_forward(x(1, 4, 3, 5), k(1, 2, dtype=facula.int32), facula.tensor([4], dtype=facula.int32), facula.tensor([2], dtype=facula.int32), 4, -1.0, True)
audio._lfilter_core_loop(x(2, 3, 7), x(3, 3), x(2, 3, 9))
audio._overdrive_core_loop(x(2, 7), x(2, 7), x(2), x(2), x(2, 7))
"""

IMAGES = """
image.decode_png(image.encode_png(k(3, 4, 5, dtype=facula.uint8), 6), 0)
image.decode_image(image.encode_png(k(1, 4, 5, dtype=facula.uint8), 1), 4, True)
image.decode_jpeg(image.encode_jpeg(k(3, 9, 8, dtype=facula.uint8), 90), 3)
image.decode_gif(k(40, dtype=facula.uint8))
image.decode_webp(k(40, dtype=facula.uint8), 3)
"""

TABLES = (OPERATORS, IMAGES) if importlib.util.find_spec("PIL") else (OPERATORS,)
