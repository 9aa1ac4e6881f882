"""The files of the gallery: real networks, where each is found, and what each is fed.

Files come from $QMLIR_SHARED, and from wheels of packages that ship real networks, which `make gallery` downloads
without installing them. Samples are drawn with fixed seeds from recordings, pictures and files that are at hand, so
that every tool of the comparison gets the same.
"""

import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path, PurePosixPath
from typing import Any
from wave import open as open_wave

import numpy as np

from qmlir.running.files import write_whole
from tests.conftest import ROOT
from tests.models.networks import CLASSIFIERS, NETWORKS, Array, Find
from tests.models.transformers import TRANSFORMERS

WHEELS = ROOT / "build" / "wheels"

MADE = "made"
"""What stands in a path for the networks of tests/models/transformers.py, which have seeded weights."""

PACKAGES = (
    "basic-pitch==0.4.0",
    "faster-whisper==1.2.1",
    "mediapipe==0.10.14",
    "nudenet==3.4.2",
    "openwakeword==0.5.1",
    "rapidocr-onnxruntime==1.4.4",
    "silero-vad==6.2.3",
)
"""Packages whose wheels hold networks."""

RATE = 16000
"""Samples a second of the recordings."""

Sample = Mapping[str, Array]
Samples = Sequence[Sample]
"""Samples in order: those of a network with states follow each other, beginning at states of 0."""

Draw = Callable[[Find, int], Sequence[Samples]]
"""Gives so many sequences; those of a network without states have one sample each."""


@dataclass(frozen=True)
class File:
    """A network of the gallery.

    name       as the table calls it
    path       below $QMLIR_SHARED, `DISTRIBUTION:PATH` of a file in a wheel, or `made:NAME`
    draw       gives its samples
    states     its states, as `qmlir.load` takes them
    constants  inputs that are constants
    shapes     symbolic dimensions that are bound
    classes    whether the largest element along an output's last axis is a decision
    decides    outputs that are probabilities of a decision or its logits → the value from which the answer is yes
    """

    name: str
    path: str
    draw: Draw
    states: Mapping[str, str] = field(default_factory=dict[str, str])
    constants: Mapping[str, Any] = field(default_factory=dict[str, Any])
    shapes: Mapping[str, int] = field(default_factory=dict[str, int])
    classes: bool = False
    decides: Mapping[str, float] = field(default_factory=dict[str, float])

    def find(self, find: Find) -> Path | None:
        """Where the file is; None if it is absent."""
        package, _, inside = self.path.rpartition(":")
        if not package:
            return found if (found := find(self.path)).exists() else None
        if package == MADE:
            made = ROOT / "build" / f"{inside}.onnx"
            made.parent.mkdir(exist_ok=True)
            write_whole(made, TRANSFORMERS[inside].model().SerializeToString())
            return made
        for wheel in sorted(WHEELS.glob(f"{package.replace('-', '_')}-*.whl")):
            target = WHEELS / package / inside
            if not target.exists():
                with zipfile.ZipFile(wheel) as archive:
                    archive.extract(inside, WHEELS / package)
            return target
        return None


# ---------------------------------------------------------------------------------------------------------------
# What networks are fed


def _alone(samples: Sequence[Sample]) -> Sequence[Samples]:
    return [[sample] for sample in samples]


@lru_cache
def _recordings(folder: Path) -> tuple[list[Array], Array]:
    """Words, and a second of noise, from −1 to 1."""
    heard: list[Array] = []
    for name in ("yes", "no", "silence", "noise"):
        with open_wave(str(folder / f"{name}_1000ms.wav")) as file:
            heard.append(np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32768)
    return heard[:2], heard[3]


def speech(find: Find, count: int, seconds: float, seed: int = 0) -> list[Array]:
    """Words at several speeds and loudnesses, over noise at several loudnesses; each [seconds · RATE], float32."""
    words, noise = _recordings(find("data"))
    draw, size = np.random.default_rng(seed), int(seconds * RATE)
    made: list[Array] = []
    for _ in range(count):
        sound = np.resize(np.roll(noise, draw.integers(len(noise))), size) * np.float32(draw.uniform(0.02, 0.5))
        for start in range(0, size, RATE):
            word, speed = words[draw.integers(2)], draw.uniform(0.8, 1.25)
            heard = np.interp(np.arange(0, len(word) - 1, speed), np.arange(len(word)), word)
            begin = start + int(draw.integers(RATE // 4))
            part = sound[begin : begin + len(heard)]
            part += (heard[: len(part)] * 10 ** draw.uniform(-1, 0.3)).astype(np.float32)
        made.append(np.clip(sound, -1, 1).astype(np.float32))
    return made


def _music(find: Find, count: int) -> Sequence[Samples]:
    """Notes of a scale with decaying harmonics, two seconds at 22,050 samples a second."""
    draw, size, rate = np.random.default_rng(1), 43844, 22050
    time = np.arange(size) / rate
    made: list[Sample] = []
    for _ in range(count):
        sound = draw.normal(size=size) * 1e-3
        for _ in range(draw.integers(3, 12)):
            pitch, begin, length = (
                440 * 2 ** ((draw.integers(40, 80) - 69) / 12),
                draw.uniform(0, 1.8),
                draw.uniform(0.1, 1),
            )
            since = time - begin
            envelope = np.where((since > 0) & (since < length), np.exp(-3 * since) * np.minimum(since * 100, 1), 0)
            for k in range(1, 8):
                sound += envelope * draw.uniform(0.05, 0.3) / k * np.sin(2 * np.pi * pitch * k * since)
        made.append({"": (sound / max(1, np.abs(sound).max())).astype(np.float32).reshape(1, size, 1)})
    return _alone(made)


def _files(find: Find, count: int) -> Sequence[Samples]:
    """The first and the last kilobyte of files of many kinds, as Magika reads them.

    Those of the wheels and of $QMLIR_SHARED, which stay as they are.
    """
    by_kind: dict[str, list[Callable[[], bytes]]] = {}
    for wheel in sorted(WHEELS.glob("*.whl")):
        archive = zipfile.ZipFile(wheel)
        for member in sorted(archive.infolist(), key=lambda each: each.filename):
            if member.file_size > 64:
                name = PurePosixPath(member.filename)
                by_kind.setdefault(name.suffix or name.name, []).append(partial(archive.read, member))
    for folder in (find("images"), find("models")):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.stat().st_size > 64:
                by_kind.setdefault(path.suffix or path.name, []).append(path.read_bytes)
    draw = np.random.default_rng(2)
    order = [reads[i] for reads in by_kind.values() for i in draw.permutation(len(reads))[:6]]
    made: list[Sample] = []
    for at in draw.permutation(len(order))[:count]:
        content = order[at]()
        first, last = content[:4096].lstrip()[:1024], content[-4096:].rstrip()[-1024:]
        padded = [*first, *[256] * (1024 - len(first)), *[256] * (1024 - len(last)), *last]
        made.append({"": np.array([padded], np.int32)})
    return _alone(made)


def _heard(seconds: float, scale: float = 1) -> Draw:
    return lambda find, count: _alone([{"": (x * np.float32(scale))[None]} for x in speech(find, count, seconds)])


FRAMES, FEW_FRAMES = 40, 12
"""Frames of a sequence; fewer of GTCRN, which is thousands of operations."""


def _chunks(find: Find, count: int) -> Sequence[Samples]:
    """Chunks of 512 samples behind the last 64 of the chunk before, as Silero hears them."""
    made: list[Samples] = []
    for sound in speech(find, count, (FRAMES * 512) / RATE):
        padded = np.concatenate([np.zeros(64, np.float32), sound])
        made.append([{"input": padded[None, k * 512 : k * 512 + 576]} for k in range(FRAMES)])
    return made


def _spectra(find: Find, count: int) -> Sequence[Samples]:
    """Spectra of frames of 512, as GTCRN sees them."""
    window = np.sqrt(np.hanning(513)[:512])
    made: list[Samples] = []
    for sound in speech(find, count, (FEW_FRAMES + 1) * 256 / RATE):
        frames = [np.fft.rfft(sound[k * 256 : k * 256 + 512] * window) for k in range(FEW_FRAMES)]
        made.append([{"mix": np.stack([f.real, f.imag], -1).astype(np.float32)[None, :, None]} for f in frames])
    return made


def _magnitudes(find: Find, count: int) -> Sequence[Samples]:
    """Magnitudes of the spectra of frames of 512, as DTLN sees them."""
    made: list[Samples] = []
    for sound in speech(find, count, (FRAMES + 4) * 128 / RATE):
        frames = [np.abs(np.fft.rfft(sound[k * 128 : k * 128 + 512])) for k in range(FRAMES)]
        made.append([{"input_2": f.astype(np.float32).reshape(1, 1, 257)} for f in frames])
    return made


def _pictures(width: int, height: int, low: float, high: float, *, first: bool = False, faces: bool = False) -> Draw:
    """Crops of pictures, values from `low` to `high`; channels first for ONNX."""

    def draw(find: Find, count: int) -> Sequence[Samples]:
        from PIL import Image

        paths = [find("images/grace_hopper.bmp")] if faces else sorted(find("data/imagenet1k-sample").glob("*.JPEG"))
        chance = np.random.default_rng(3)
        made: list[Sample] = []
        for at in range(count):
            picture = Image.open(paths[at * 7919 % len(paths)]).convert("RGB")
            wide, high_ = picture.size
            if faces:  # the upper middle of the portrait
                side = int(wide * chance.uniform(0.35, 0.6))
                left, top = int(wide * chance.uniform(0.2, 0.45)), int(high_ * chance.uniform(0.02, 0.2))
            else:
                side = int(min(wide, high_) * chance.uniform(0.5, 1))
                left, top = (int(chance.integers(size - side + 1)) for size in (wide, high_))
            x = np.asarray(picture.crop((left, top, left + side, top + side)).resize((width, height)), np.float32)
            x = np.clip(x * chance.uniform(0.6, 1.2), 0, 255) / 255 * (high - low) + low
            x = x.transpose(2, 0, 1) if first else x
            made.append({"": np.ascontiguousarray(x[None], np.float32)})
        return _alone(made)

    return draw


def _of(name: str) -> Draw:
    """The samples of a network of tests/models/networks.py."""

    def draw(find: Find, count: int) -> Sequence[Samples]:
        x, _ = NETWORKS[name].load(find)
        return _alone([{"": x[i]} for i in np.random.default_rng(0).permutation(len(x))[:count]])

    return draw


def _mels(find: Find, count: int) -> Sequence[Samples]:
    """Log-mel features of speech, 76 frames of 32, by openWakeWord's own front end."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(find("models/more/oww_melspectrogram.onnx")))
    heard = [session.run(None, {"input": (x * 32767)[None]})[0] for x in speech(find, count, 1)]
    made = [np.asarray(x).reshape(-1, 32) for x in heard]
    return _alone([{"": (m[:76] / 10 + 2).astype(np.float32).reshape(1, 76, 32, 1)} for m in made])


_MEDIAPIPE = "mediapipe:mediapipe/modules"
_SILERO: Mapping[str, Any] = {
    "states": {"state": "stateN"},
    "constants": {"sr": np.array(RATE)},
    "shapes": {"batch": 1, "sequence": 576},
    "decides": {"output": 0.5},
}
_GTCRN = {f"{name}_cache": f"{name}_cache_out" for name in ("conv", "tra", "inter")}
_LOG_MEL = {"batch_size": 1, "samples": RATE}
_PPOCR = {"p2o.DynamicDimension.0": 1, "p2o.DynamicDimension.1": 320, "p2o.DynamicDimension.2": 320}
_NUDENET = {"batch": 1, "height": 320, "width": 320}


_HAND = {"Identity_1": 0.5, "Identity_2": 0.5}
"""Whether there is a hand, and which."""


def _mediapipe(name: str, path: str, draw: Draw, **decides: float) -> File:
    return File(name, f"{_MEDIAPIPE}/{path}.tflite", draw, decides=decides)


FILES = (
    *(File(n.name, n.file, _of(n.name), classes=n.name in CLASSIFIERS) for n in NETWORKS.values()),
    File("magika", "models/more/magika_v3_3.onnx", _files, classes=True),
    File("log-mel", "models/more/oww_melspectrogram.onnx", _heard(1.0, 32767), shapes=_LOG_MEL),
    File("basic-pitch", "models/more/basic_pitch_nmp.onnx", _music),
    File("silero op18", "models/more/silero_vad_op18_ifless.onnx", _chunks, **_SILERO),
    File("silero op15", "silero-vad:silero_vad/data/silero_vad_16k_op15.onnx", _chunks, **_SILERO),
    File("gtcrn", "models/more/gtcrn_simple.onnx", _spectra, states=_GTCRN),
    File("dtln 1", "models/more/dtln_quant_1.tflite", _magnitudes, states={"input_3": "Identity_1"}),
    File("cct", "models/more/cct_2_32_128.onnx", _pictures(32, 32, -1, 1, first=True), classes=True),
    File("tiny vit", f"{MADE}:tiny_vit", _pictures(64, 64, -2, 2, first=True), classes=True),
    File("hand recrop", "models/more/mp_hand_recrop.onnx", _pictures(256, 256, 0, 1)),
    _mediapipe("iris", "iris_landmark/iris_landmark", _pictures(64, 64, 0, 1, faces=True)),
    _mediapipe("face landmark", "face_landmark/face_landmark", _pictures(192, 192, 0, 1, faces=True), conv2d_31=0),
    _mediapipe("face detection", "face_detection/face_detection_short_range", _pictures(128, 128, -1, 1)),
    _mediapipe("hand lite", "hand_landmark/hand_landmark_lite", _pictures(224, 224, 0, 1), **_HAND),
    _mediapipe("hand full", "hand_landmark/hand_landmark_full", _pictures(224, 224, 0, 1), **_HAND),
    _mediapipe("palm lite", "palm_detection/palm_detection_lite", _pictures(192, 192, 0, 1)),
    _mediapipe("pose detection", "pose_detection/pose_detection", _pictures(224, 224, -1, 1)),
    _mediapipe("selfie", "selfie_segmentation/selfie_segmentation", _pictures(256, 256, 0, 1)),
    File("wakeword embedding", "openwakeword:openwakeword/resources/models/embedding_model.onnx", _mels),
    File(
        "ppocr det",
        "rapidocr-onnxruntime:rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        _pictures(320, 320, -1, 1, first=True),
        shapes=_PPOCR,
    ),
    File("nudenet", "nudenet:nudenet/320n.onnx", _pictures(320, 320, 0, 1, first=True), shapes=_NUDENET),
)
"""The gallery, in the order of the table."""
