"""Images as torchvision's library decodes and encodes them, on Pillow."""

import io

import numpy as np
import pytest

import facula

pytest.importorskip("PIL")
from PIL import Image  # noqa: E402

facula.ops.load_library("/anywhere/torchvision/image.so")
image = facula.ops.image
rng = np.random.default_rng(2)
PIXELS = rng.integers(0, 255, (6, 5, 4), dtype=np.uint8)
MODES = {"L": PIXELS[:, :, 0], "LA": PIXELS[:, :, :2], "RGB": PIXELS[:, :, :3], "RGBA": PIXELS}


def file_of(picture, kind, **options):
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return facula.frombuffer(bytearray(file.getvalue()), dtype=facula.uint8)


def planes(array):
    return array[None] if array.ndim == 2 else array.transpose(2, 0, 1)


@pytest.mark.parametrize("mode", MODES)
def test_png(mode):
    data = file_of(Image.fromarray(MODES[mode]), "PNG")
    decoded = image.decode_png(data, 0)
    assert decoded.dtype == facula.uint8 and decoded.is_contiguous()
    np.testing.assert_array_equal(decoded.numpy(), planes(MODES[mode]))
    for number, channels in ((1, 1), (2, 2), (3, 3), (4, 4)):
        out = image.decode_image(data, number)
        assert out.shape == (channels, 6, 5)
        if channels % 2 == 0 and mode in ("L", "RGB"):
            assert (out[-1] == 255).all()
    if mode in ("L", "RGB"):
        np.testing.assert_array_equal(image.decode_png(image.encode_png(decoded, 6), 0).numpy(), decoded.numpy())


def test_png_of_sixteen_bits_and_of_palettes():
    grey = rng.integers(0, 65535, (3, 4), dtype=np.uint16)
    data = file_of(Image.fromarray(grey), "PNG")
    assert image.decode_png(data, 0).dtype == facula.uint16
    np.testing.assert_array_equal(image.decode_png(data, 0).numpy()[0], grey)
    assert image.decode_png(data, 4).shape == (4, 3, 4) and image.decode_png(data, 4).numpy()[3].min() == 65535
    picture = Image.fromarray(MODES["RGB"]).quantize(4)
    decoded = image.decode_png(file_of(picture, "PNG"), 0)
    np.testing.assert_array_equal(decoded.numpy(), planes(np.asarray(picture.convert("RGB"))))
    assert image.decode_png(file_of(Image.fromarray(PIXELS[:, :, 0] > 99), "PNG"), 0).unique().tolist() == [0, 255]
    colors = bytearray(file_of(Image.fromarray(MODES["RGB"]), "PNG").numpy().tobytes())
    colors[24] = 16
    with pytest.raises(NotImplementedError, match="^decode_png: Pillow"):
        image.decode_png(facula.frombuffer(colors, dtype=facula.uint8), 0)


def test_jpeg():
    smooth = np.stack([np.add.outer(np.arange(16), np.arange(24)) * k for k in (3, 2, 1)], -1).astype(np.uint8)
    data = image.encode_jpeg(facula.from_numpy(np.ascontiguousarray(planes(smooth))), 95)
    picture = Image.open(io.BytesIO(data.numpy().tobytes()))
    np.testing.assert_array_equal(image.decode_jpeg(data, 0).numpy(), planes(np.asarray(picture)))
    assert np.abs(image.decode_jpeg(data, 3).numpy().astype(int) - planes(smooth)).max() < 30
    assert image.decode_jpeg(data, 1).shape == (1, 16, 24)
    turned = Image.fromarray(smooth)
    exif = turned.getexif()
    exif[0x112] = 6  # to be shown turned right
    data = file_of(turned, "JPEG", exif=exif)
    assert image.decode_image(data, 3).shape == (3, 16, 24) and image.decode_image(data, 3, True).shape == (3, 24, 16)
    assert image.decode_jpeg(file_of(Image.fromarray(PIXELS, "CMYK"), "JPEG"), 0).shape == (4, 6, 5)


def test_gif_and_webp():
    frames = [Image.fromarray(rng.integers(0, 255, (6, 5, 3), dtype=np.uint8)).quantize(8) for _ in range(3)]
    assert image.decode_gif(file_of(frames[0], "GIF")).shape == (3, 6, 5)
    several = image.decode_image(file_of(frames[0], "GIF", save_all=True, append_images=frames[1:], duration=10), 0)
    np.testing.assert_array_equal(several[2].numpy(), planes(np.asarray(frames[2].convert("RGB"))))
    data = file_of(Image.fromarray(PIXELS[:, :, :3]), "WEBP", lossless=True)
    np.testing.assert_array_equal(image.decode_webp(data, 0).numpy(), planes(PIXELS[:, :, :3]))
    assert image.decode_image(data, 4).shape == (4, 6, 5)


def test_files(tmp_path):
    path = str(tmp_path / "some")
    image.write_file(path, facula.arange(9, dtype=facula.uint8))
    assert image.read_file(path).tolist() == list(range(9))
    image.write_file(path, facula.empty(0, dtype=facula.uint8))
    assert image.read_file(path).shape == (0,)
    for call in (lambda: image.read_file(path + "/x"), lambda: image.write_file(path + "/x", facula.empty(0, dtype=facula.uint8))):
        with pytest.raises(RuntimeError, match=r"_file: \[Errno"):
            call()


PNG, JPEG = file_of(Image.fromarray(PIXELS), "PNG"), file_of(Image.fromarray(PIXELS[:, :, :3]), "JPEG")
HOSTILE = {
    "decode_png": [(PNG[:40], 0), (facula.zeros(90, dtype=facula.uint8), 0), (PNG, 7), (PNG.float(), 0), (PNG[None], 0), (PNG[:0], 0)],
    "decode_jpeg": [(JPEG[:300], 0), (PNG, 0), (JPEG, 4), (JPEG, -1)],
    "decode_gif": [(PNG,), (facula.frombuffer(bytearray(b"GIF89a" + b"\xff" * 40), dtype=facula.uint8),)],
    "decode_webp": [(PNG, 0), (facula.frombuffer(bytearray(b"RIFF" + b"\0" * 40), dtype=facula.uint8), 0)],
    "decode_image": [(facula.zeros(90, dtype=facula.uint8), 0)],
    "encode_png": [(facula.zeros(3, 4, 4, dtype=facula.uint8), 10), (facula.zeros(2, 4, 4, dtype=facula.uint8), 6), (facula.zeros(3, 4, 4), 6)],
    "encode_jpeg": [(facula.zeros(4, 4, dtype=facula.uint8), 75), (facula.zeros(3, 0, 4, dtype=facula.uint8), 75)],
    "write_file": [("/nowhere/x", facula.zeros(3)), ("/nowhere/x", facula.zeros(3, 3, dtype=facula.uint8))],
}


@pytest.mark.parametrize("name, arguments", [(name, a) for name, cases in HOSTILE.items() for a in cases])
def test_bad_input(name, arguments):
    with pytest.raises(RuntimeError, match=f"^{name}: .*, got "):
        getattr(image, name)(*arguments)


def test_what_is_not_there():
    with pytest.raises(NotImplementedError, match="^decode_jpegs_cuda: "):
        image.decode_jpegs_cuda([PNG], 0, "cuda")
