"""How pictures become inputs of a network."""

import contextlib
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from qmlir.errors import FileError, InputError, OptionError
from qmlir.ir.signature import TensorSpec
from qmlir.samples.pictures import Preprocessing

PIXELS = np.random.default_rng(1).integers(0, 256, (6, 8, 3)).astype(np.uint8)


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    Image.fromarray(PIXELS).save(tmp_path / "p.png")
    return tmp_path / "p.png"


def spec(*shape: int, dtype: str = "float32") -> TensorSpec:
    return TensorSpec("x", shape, np.dtype(dtype))


def test_pixels_are_scaled_and_normalized(picture: Path) -> None:
    preprocessing = Preprocessing(scale=1 / 255, mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4))
    expected = ((PIXELS / 255 - [0.5, 0.4, 0.3]) / [0.2, 0.3, 0.4]).astype(np.float32)
    np.testing.assert_array_equal(preprocessing.read(picture, spec(1, 6, 8, 3))[0], expected)
    np.testing.assert_array_equal(preprocessing.read(picture, spec(1, 3, 6, 8))[0], expected.transpose(2, 0, 1))


def test_order_layout_and_type(picture: Path) -> None:
    np.testing.assert_array_equal(Preprocessing(order="bgr").read(picture, spec(6, 8, 3)), PIXELS[:, :, ::-1])
    assert Preprocessing(layout="nchw").read(picture, spec(1, 3, 5, 3)).shape == (1, 3, 5, 3)
    signed = Preprocessing(mean=(128.0,)).read(picture, spec(1, 6, 8, 3, dtype="int8"))
    np.testing.assert_array_equal(signed[0], (PIXELS.astype(int) - 128).astype(np.int8))
    grey = Preprocessing().read(picture, spec(1, 6, 8))
    np.testing.assert_array_equal(grey[0], np.asarray(Image.fromarray(PIXELS).convert("L")))


def test_resize_and_crop(picture: Path) -> None:
    whole = Image.fromarray(PIXELS).resize((16, 12), Image.Resampling.BICUBIC)
    found = Preprocessing(resize=12, filter="bicubic").read(picture, spec(1, 10, 10, 3))
    np.testing.assert_array_equal(found[0], np.asarray(whole)[1:11, 3:13])
    squeezed = Image.fromarray(PIXELS).resize((5, 5), Image.Resampling.BILINEAR)
    np.testing.assert_array_equal(Preprocessing().read(picture, spec(1, 5, 5, 3))[0], np.asarray(squeezed))


@pytest.mark.parametrize(
    ("preprocessing", "shape", "message"),
    [
        (Preprocessing(), (1, 3, 5, 3), "must have 1 or 3 channels in one place, got either place; give layout=nchw"),
        (Preprocessing(layout="nchw"), (1, 6, 8, 3), "got no place; save the inputs as .npy files"),
        (
            Preprocessing(mean=(1.0, 2.0)),
            (1, 6, 8, 3),
            "mean: must be one number, or one for each of 3 channels, got 1,2",
        ),
        (Preprocessing(std=(1.0, 0.0, 1.0)), (1, 6, 8, 3), "std: must be one number, .*, not 0, got 1,0,1"),
        (Preprocessing(resize=4), (1, 6, 8, 3), "must leave at least 8x6 pixels for the crop, got 5x4 for"),
    ],
)
def test_preprocessing_that_does_not_fit(
    preprocessing: Preprocessing, shape: tuple[int, ...], message: str, picture: Path
) -> None:
    with pytest.raises((InputError, OptionError), match=message):
        preprocessing.read(picture, spec(*shape))


def test_values_beyond_an_integer_input(picture: Path) -> None:
    with pytest.raises(OptionError, match="must bring pixels into int8's range, got values from"):
        Preprocessing().read(picture, spec(1, 6, 8, 3, dtype="int8"))


def test_no_picture(tmp_path: Path) -> None:
    (tmp_path / "p.png").write_bytes(b"hello")
    with pytest.raises(FileError, match="must be a picture"):
        Preprocessing().read(tmp_path / "p.png", spec(1, 6, 8, 3))


def test_a_small_file_of_a_huge_picture(tmp_path: Path) -> None:
    for size in ((8200, 8200), (14_000, 14_000)):
        Image.new("1", size).save(tmp_path / "p.png")
        with pytest.raises(FileError, match="must have at most 67108864 pixels, got"):
            Preprocessing().read(tmp_path / "p.png", spec(1, 6, 8, 3))


def test_a_picture_that_would_become_huge(tmp_path: Path) -> None:
    Image.new("L", (1, 30_000)).save(tmp_path / "p.png")
    with pytest.raises(OptionError, match="must make at most 67108864 pixels, got 224x6720000"):
        Preprocessing(resize=224).read(tmp_path / "p.png", spec(1, 6, 8, 3))


@pytest.mark.parametrize("format", ["png", "jpeg", "bmp", "gif", "ppm", "webp"])
def test_damaged_pictures(format: str, tmp_path: Path) -> None:
    Image.fromarray(PIXELS).save(tmp_path / f"p.{format}")
    whole = (tmp_path / f"p.{format}").read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(60):
        data = bytearray(whole)
        for at in rng.integers(0, len(data), 3):
            data[at] = rng.integers(256)
        (tmp_path / f"p.{format}").write_bytes(data[: rng.integers(4, len(data) + 1)])
        with contextlib.suppress(FileError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            Preprocessing().read(tmp_path / f"p.{format}", spec(1, 6, 8, 3))
