"""The trained TFLite networks under $QMLIR_SHARED with the labelled data that score them, as LiteRT is given them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image

from qmlir.ir.signature import TensorSpec
from tests.models.networks import Array, Find

Load = Callable[[Find], tuple[Array, Array]]


@dataclass(frozen=True)
class Labelled:
    """A network and what scores it.

    name      its file below models/tflite
    load      real-valued inputs, without a batch dimension, and the class of each
    skipped   how many of the first outputs stand for no class
    """

    name: str
    load: Load
    skipped: int = 0

    @property
    def file(self) -> str:
        return f"models/tflite/{self.name}.tflite"


def _keywords(find: Find) -> tuple[Array, Array]:
    data = np.load(find("data/kws01_500.npz"))
    return (data["X"].astype(np.float32) - 83) * np.float32(0.5847029089927673), data["Y"].astype(int)


def _cifar(find: Find) -> tuple[Array, Array]:
    data = np.load(find("data/cifar10_jpeg_2000.npz"))
    return data["X"].astype(np.float32), data["Y"].astype(int)


def _persons(find: Find) -> tuple[Array, Array]:
    data = np.load(find("data/vww_coco_128.npz"))
    return data["X"].astype(np.float32) / 255, data["Y"].astype(int)


def picture_files(find: Find) -> list[Path]:
    """The pictures; the number that begins a file's name is its class."""
    return sorted(find("data/imagenet1k-sample").glob("*.JPEG"))


def pixels(file: Path, size: int) -> Array:
    """A picture with an eighth of its short side cropped away, uint8 [size, size, 3]."""
    picture = Image.open(file).convert("RGB")
    scale = size * 256 / 224 / min(picture.size)
    width, height = (round(side * scale) for side in picture.size)
    left, top = (width - size) // 2, (height - size) // 2
    shown = picture.resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(shown.crop((left, top, left + size, top + size)))


@cache
def _imagenet(find: Find) -> tuple[Array, Array]:
    files = picture_files(find)
    images = np.stack([pixels(file, 224) for file in files])
    return images.astype(np.float32) / np.float32(127.5) - 1, np.array([int(f.name.split("_")[0]) for f in files])


LABELLED = {
    n.name: n
    for n in (
        Labelled("kws_dscnn_i8", _keywords),
        Labelled("resnet8_cifar_i8", _cifar),
        Labelled("vww_mbv1_i8", _persons),
        Labelled("mobilenet_v1_0.25_224_f32", _imagenet, skipped=1),
        Labelled("mobilenet_v1_0.25_224_u8", _imagenet, skipped=1),
        Labelled("mobilenet_v2_1.0_224_u8", _imagenet, skipped=1),
    )
}


def sounds(find: Find) -> Array:
    """What the autoencoder looks at: each five frames of 128 bands in a row, float32 [n, 640]."""
    frames = np.fromfile(find("data/normal_id_01_00000000_hist_librosa.bin"), np.float32).reshape(-1, 128)
    return np.stack([frames[i : i + 5].reshape(-1) for i in range(len(frames) - 4)])


def stored(real: Array, spec: TensorSpec, scale: float, zero_point: int) -> Array:
    """A real-valued input as a network takes it, with its batch dimension."""
    if spec.dtype == np.float32:
        return real[None].astype(np.float32)
    limits = np.iinfo(spec.dtype)
    return np.clip(np.round(real / scale) + zero_point, limits.min, limits.max)[None].astype(spec.dtype)
