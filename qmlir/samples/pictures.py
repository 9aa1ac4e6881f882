"""Converts pictures to inputs of a network; the user says how pixels become numbers, and qmlir never guesses.

    --preprocess "resize=256 scale=0.00392157 mean=0.485,0.456,0.406 std=0.229,0.224,0.225"

A picture is resized so that its shorter side has `resize` pixels, and cropped around its centre to the input's size.
Then each channel x becomes (x · scale − mean) / std. Without `resize`, the picture is resized to the input's size,
and its proportions may change.
"""

import struct
import warnings
import zlib
from dataclasses import dataclass
from importlib import import_module
from math import prod
from pathlib import Path
from typing import Any, Literal

import numpy as np

from qmlir.errors import FileError, InputError, OptionError
from qmlir.ir.passes import option
from qmlir.ir.signature import TensorSpec
from qmlir.numerics import Array
from qmlir.numerics.halves import is_float

PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".ppm", ".webp")

MOST_PIXELS = 1 << 26
"""The most pixels of a picture: a small file may describe one that takes all of the memory."""

BROKEN = (ValueError, SyntaxError, EOFError, LookupError, TypeError, OverflowError, struct.error, zlib.error)
"""Exceptions of Pillow for broken pictures, besides OSError."""

MODES = {1: "L", 3: "RGB"}
"""Number of an input's channels → Pillow's mode for such pictures."""


@dataclass(frozen=True)
class Preprocessing:
    """The options that say how a picture becomes an input."""

    resize: int = option(0, "pixels of the shorter side before the crop; 0 resizes to the input's size")
    filter: Literal["bilinear", "nearest", "bicubic", "lanczos"] = option("bilinear", "how to resize")
    scale: float = option(1.0, "factor on the pixels, which are 0 to 255")
    mean: tuple[float, ...] = option((0.0,), "subtracted after scaling: one number, or one for each channel")
    std: tuple[float, ...] = option((1.0,), "divided by after that: one number, or one for each channel")
    order: Literal["rgb", "bgr"] = option("rgb", "order of the channels of a coloured input")
    layout: Literal["auto", "nchw", "nhwc"] = option("auto", "where the input has its channels")

    def read(self, path: Path, spec: TensorSpec) -> Array:
        """Reads a picture as an input.

        Raises:
            FileError: The file is not a picture.
            InputError: The input's shape does not fit a picture: it has no axis of 1 or 3 channels, or two.
            OptionError: Means or deviations are not one for each channel, or do not fit the input's type.
        """
        channels_last, (rows, columns, channels) = self._sizes(spec)
        pixels = self._pixels(path, rows, columns, channels)
        if self.order == "bgr":
            pixels = pixels[:, :, ::-1]
        values = (pixels * self.scale - self._per_channel("mean", channels)) / self._per_channel("std", channels)
        values = values if channels_last else np.moveaxis(values, 2, 0)
        return _as_type(values.reshape(spec.shape), spec)

    def _sizes(self, spec: TensorSpec) -> tuple[bool, tuple[int, int, int]]:
        """Returns whether channels are last, and (rows, columns, channels) of an input."""
        shape = spec.shape[1:] if len(spec.shape) == 4 and spec.shape[0] == 1 else spec.shape
        if len(shape) == 2:
            return True, (*shape, 1)
        first, last = (len(shape) == 3 and shape[i] in MODES for i in (0, -1))
        if self.layout != "auto":
            first, last = first and self.layout == "nchw", last and self.layout == "nhwc"
        if first == last:
            got = "either place" if first else "no place"
            remedy = "give layout=nchw or layout=nhwc" if first else "save the inputs as .npy files"
            raise InputError(spec.name, f"{spec} must have 1 or 3 channels in one place", got=got, remedy=remedy)
        return last, (shape[0], shape[1], shape[2]) if last else (shape[1], shape[2], shape[0])

    def _per_channel(self, name: Literal["mean", "std"], channels: int) -> Array:
        values = np.array(getattr(self, name), np.float64)
        if values.size not in (1, channels) or not np.isfinite(values).all() or (name == "std" and not values.all()):
            need = f"must be one number, or one for each of {channels} channels" + (", not 0" if name == "std" else "")
            raise OptionError(f"--preprocess={name}", need, got=",".join(f"{v:g}" for v in values) or "none")
        return values

    def _pixels(self, path: Path, rows: int, columns: int, channels: int) -> Array:
        """Returns the picture's pixels, float64 [rows, columns, channels]."""
        pillow = _pillow()
        image = _opened(path, MODES[channels])
        resampling = pillow.Resampling[self.filter.upper()]
        if not self.resize:
            image = image.resize((columns, rows), resampling)
        else:
            ratio = self.resize / min(image.size)
            sizes = [max(round(n * ratio), 1) for n in image.size]
            if prod(sizes) > MOST_PIXELS:
                got = f"{sizes[0]}x{sizes[1]} for {path}"
                raise OptionError("--preprocess=resize", f"must make at most {MOST_PIXELS} pixels", got=got)
            image = image.resize(sizes, resampling)
            left, top = (image.width - columns) // 2, (image.height - rows) // 2
            if left < 0 or top < 0:
                need = f"must leave at least {columns}x{rows} pixels for the crop"
                raise OptionError("--preprocess=resize", need, got=f"{image.width}x{image.height} for {path}")
            image = image.crop((left, top, left + columns, top + rows))
        return np.asarray(image, np.float64).reshape(rows, columns, channels)


def _opened(path: Path, mode: str) -> Any:
    """Returns a picture in a mode of Pillow.

    Raises:
        FileError: The file is no picture, or a few bytes that stand for a huge one.
    """
    pillow, need = _pillow(), "must be a picture"
    try:
        if path.exists() and not path.is_file():  # reading a pipe would wait for a writer
            raise FileError(path, need, got="a folder" if path.is_dir() else "a device or a pipe")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pillow.DecompressionBombWarning)  # the error below is for all of them
            with pillow.open(path) as picture:
                if prod(picture.size) > MOST_PIXELS:
                    got = f"{picture.size[0]}x{picture.size[1]}"
                    raise FileError(path, f"must have at most {MOST_PIXELS} pixels", got=got)
                return picture.convert(mode)
    except pillow.DecompressionBombError:
        raise FileError(path, f"must have at most {MOST_PIXELS} pixels", got="many more") from None
    except OSError as error:
        got = (error.strerror or "another kind of file, or a part of one").lower()
        raise FileError(path, need, got=got) from None
    except BROKEN:
        raise FileError(path, need, got="another kind of file, or a part of one") from None


def _pillow() -> Any:
    try:
        return import_module("PIL.Image")
    except ImportError:
        raise OptionError("--data", "needs Pillow to read pictures", remedy="pip install 'qmlir[images]'") from None


def _as_type(values: Array, spec: TensorSpec) -> Array:
    """Converts values to an input's type; raises `OptionError` if an integer input cannot hold them."""
    if is_float(spec.dtype):
        return values.astype(spec.dtype)
    rounded = np.rint(values)
    limits = np.iinfo(spec.dtype)
    if rounded.min() < limits.min or rounded.max() > limits.max:
        got = f"values from {rounded.min():g} to {rounded.max():g}"
        raise OptionError("--preprocess", f"must bring pixels into {spec.dtype.name}'s range", got=got)
    return rounded.astype(spec.dtype)
