"""Implement the operators of torchvision's library `image` with Pillow: decode and encode images as uint8 tensors (C,
H, W).
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, ImageOps, features

import facula

from . import provide

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor

#: torchvision's ImageReadMode -> Pillow's mode
_MODES = {0: None, 1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
#: how files of a format begin
_SIGNATURES = {"JPEG": b"\xff\xd8\xff", "PNG": b"\x89PNG\r\n\x1a\n", "GIF": b"GIF8", "WEBP": b"RIFF"}


def _refuse(name, expected, got):
    raise RuntimeError(f"{name}: {expected}, got {got}")


def _bytes(name, data):
    if data.dtype != facula.uint8:
        _refuse(name, "the data must be uint8", data.dtype)
    if data.dim() != 1 or data.numel() == 0:
        _refuse(name, "the data must be one-dimensional and not empty", f"shape {tuple(data.shape)}")
    return data.cpu().numpy().tobytes()


def _open(name, content, kind):
    """Return the first image of a file, read to its end."""
    if not content.startswith(_SIGNATURES[kind]):
        _refuse(name, f"the data must be a {kind} file", f"{len(content)} bytes that begin with {content[:8]!r}")
    try:
        image = Image.open(io.BytesIO(content), formats=[kind])
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        _refuse(name, f"the data must be a {kind} file", f"{len(content)} bytes: {error}")
    return image


def _read(name, image):
    try:
        image.load()
    except (OSError, ValueError, SyntaxError, EOFError) as error:
        _refuse(name, f"the data must be a whole {image.format} file", error)


def _mode(name, mode, allowed):
    if mode not in allowed:
        _refuse(name, f"the mode must be one of {sorted(allowed)}", mode)
    return _MODES[mode]


def _tensor(array):
    planes = array[None] if array.ndim == 2 else array.transpose(2, 0, 1)
    return facula.from_numpy(np.array(planes, order="C"))


def decode_jpeg(data: Any, mode: str, apply_exif_orientation: bool = False) -> Tensor:
    """Return a JPEG file as uint8 (C, H, W); modes 0 (as it is), 1 (gray) and 3 (RGB)."""
    name = "decode_jpeg"
    wanted = _mode(name, mode, (0, 1, 3))
    image = _open(name, _bytes(name, data), "JPEG")
    if wanted == "L":
        image.draft("L", None)  # the gray that is in the file
    _read(name, image)
    inverted = image.mode == "CMYK" and wanted is None  # Pillow turns these round, the file's numbers are asked for
    image = ImageOps.exif_transpose(image) if apply_exif_orientation else image
    array = np.asarray(image.convert(wanted) if wanted else image)
    return _tensor(255 - array if inverted else array)


def decode_png(data: Any, mode: str, apply_exif_orientation: bool = False) -> Tensor:
    """Return a PNG file as (C, H, W), uint8, or uint16 where a gray image has 16 bits; palettes become colors."""
    name = "decode_png"
    wanted = _mode(name, mode, _MODES)
    content = _bytes(name, data)
    if content.startswith(_SIGNATURES["PNG"]) and len(content) > 25 and content[24] == 16 and content[25] != 0:
        raise NotImplementedError(f"{name}: Pillow reads 16 bits of gray images only, got a color type of {content[25]}")
    image = _open(name, content, "PNG")
    _read(name, image)
    image = ImageOps.exif_transpose(image) if apply_exif_orientation else image
    if image.mode.startswith("I"):
        gray = np.asarray(image).astype(np.uint16)
        planes = [gray] * {None: 1, "L": 1, "LA": 1, "RGB": 3, "RGBA": 3}[wanted]
        return _tensor(np.stack(planes + [np.full_like(gray, 65535)] * (wanted in ("LA", "RGBA")), -1))
    if wanted is None:
        wanted = {"1": "L", "P": "RGBA" if "transparency" in image.info else "RGB"}.get(image.mode, image.mode)
    return _tensor(np.asarray(image.convert(wanted)))


def decode_gif(data: Any) -> Tensor:
    """Return a GIF file as uint8 RGB: (3, H, W), or (N, 3, H, W) where it has several images."""
    name = "decode_gif"
    image = _open(name, _bytes(name, data), "GIF")
    frames = []
    for number in range(getattr(image, "n_frames", 1)):
        image.seek(number)
        _read(name, image)
        frames.append(_tensor(np.asarray(image.convert("RGB"))))
    return frames[0] if len(frames) == 1 else facula.stack(frames)


def decode_webp(encoded_data: Any, mode: str) -> Tensor:
    """Return a WEBP file as uint8 (C, H, W): RGB by mode 3, RGBA by mode 4, else what it has."""
    name = "decode_webp"
    wanted = _mode(name, mode, _MODES)
    image = _open(name, _bytes(name, encoded_data), "WEBP")
    _read(name, image)
    return _tensor(np.asarray(image.convert(wanted) if wanted in ("RGB", "RGBA") else image))


def decode_image(data: Any, mode: str, apply_exif_orientation: bool = False) -> Tensor:
    """Return a JPEG, PNG, GIF or WEBP file as uint8 (C, H, W)."""
    content = _bytes("decode_image", data)
    kind = next((kind for kind, begin in _SIGNATURES.items() if content.startswith(begin)), None)
    if kind == "GIF":
        return decode_gif(data)
    if kind == "WEBP":
        return decode_webp(data, mode)
    if kind is None:
        _refuse("decode_image", "the data must be a jpeg, png, webp or gif file", f"bytes that begin with {content[:8]!r}")
    return (decode_jpeg if kind == "JPEG" else decode_png)(data, mode, apply_exif_orientation)


def _picture(name, data):
    if data.dtype != facula.uint8:
        _refuse(name, "the image must be uint8", data.dtype)
    if data.dim() != 3 or data.shape[0] not in (1, 3) or data.numel() == 0:
        _refuse(name, "the image must be (1 or 3, H, W)", f"shape {tuple(data.shape)}")
    array = data.cpu().numpy()
    return Image.fromarray(array[0] if data.shape[0] == 1 else np.ascontiguousarray(array.transpose(1, 2, 0)))


def _encoded(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return facula.frombuffer(bytearray(file.getvalue()), dtype=facula.uint8)


def encode_jpeg(data: Any, quality: Any) -> Any:
    """Return the bytes of an image (1 or 3, H, W) as a JPEG file."""
    return _encoded(_picture("encode_jpeg", data), "JPEG", quality=min(max(quality, 1), 100))


def encode_png(data: Any, compression_level: Any) -> Any:
    """Return the bytes of an image (1 or 3, H, W) as a PNG file."""
    if not 0 <= compression_level <= 9:
        _refuse("encode_png", "the compression level must be between 0 and 9", compression_level)
    return _encoded(_picture("encode_png", data), "PNG", compress_level=compression_level)


def read_file(filename: str) -> Tensor:
    """Return the bytes of a file as uint8."""
    try:
        with open(filename, "rb") as file:
            content = bytearray(file.read())
    except OSError as error:
        raise RuntimeError(f"read_file: [Errno {error.errno}] {error.strerror}: {filename!r}") from None
    return facula.frombuffer(content, dtype=facula.uint8) if content else facula.empty(0, dtype=facula.uint8)


def write_file(filename: str, data: Any) -> None:
    """Write a one-dimensional uint8 tensor as a file."""
    if data.dtype != facula.uint8 or data.dim() != 1:
        _refuse("write_file", "the data must be one-dimensional and uint8", f"{data.dtype} of shape {tuple(data.shape)}")
    try:
        with open(filename, "wb") as file:
            file.write(data.cpu().numpy().tobytes())
    except OSError as error:
        raise RuntimeError(f"write_file: [Errno {error.errno}] {error.strerror}: {filename!r}") from None


def _needs_cuda(name):
    def refuse(*args):
        raise NotImplementedError(f"{name}: Facula does not use NVIDIA's decoder of images, got {len(args)} arguments")

    return refuse


for _schema, _function in {
    "_is_compiled_against_turbo() -> bool": lambda: bool(features.check_feature("libjpeg_turbo")),
    "_jpeg_version() -> int": lambda: round(float(features.version_codec("jpg")) * 10),
    "decode_gif(Tensor data) -> Tensor": decode_gif,
    "decode_image(Tensor data, int mode, bool apply_exif_orientation=False) -> Tensor": decode_image,
    "decode_jpeg(Tensor data, int mode, bool apply_exif_orientation=False) -> Tensor": decode_jpeg,
    "decode_png(Tensor data, int mode, bool apply_exif_orientation=False) -> Tensor": decode_png,
    "decode_webp(Tensor encoded_data, int mode) -> Tensor": decode_webp,
    "encode_jpeg(Tensor data, int quality) -> Tensor": encode_jpeg,
    "encode_png(Tensor data, int compression_level) -> Tensor": encode_png,
    "decode_jpegs_cuda(Tensor[] encoded_images, int mode, Device device) -> Tensor[]": _needs_cuda("decode_jpegs_cuda"),
    "encode_jpegs_cuda(Tensor[] decoded_images, int quality) -> Tensor[]": _needs_cuda("encode_jpegs_cuda"),
    "read_file(str filename) -> Tensor": read_file,
    "write_file(str filename, Tensor data) -> Tensor": write_file,
}.items():
    provide(f"image::{_schema}", _function)
