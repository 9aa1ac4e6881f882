"""What the metadata of a GGUF file say of its network: the architecture, its sizes and its numbers."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from qmlir.errors import FileError
from qmlir.frontends.gguf.reader import File, Value

OTHER_REMEDY = "export the model to .onnx, with a cache of fixed size"


@dataclass(frozen=True)
class Architecture:
    """An architecture of the Llama family.

    pairs    whether neighbours are rotated together; otherwise each element and the one half of the head behind it
    norms    whether queries and keys are normalized, head by head
    behind   whether attention and feed-forward network are normalized behind their last layer, too
    gelu     whether the gate is a GELU, by tanh, instead of a Swish
    scaled   whether embeddings are multiplied by the root of the width
    pattern  every so manieth layer sees all places, those between them the window; 1 if all layers see the window
    """

    pairs: bool = False
    norms: bool = False
    behind: bool = False
    gelu: bool = False
    scaled: bool = False
    pattern: int = 1


ARCHITECTURES: Mapping[str, Architecture] = {
    "llama": Architecture(pairs=True),
    "qwen2": Architecture(),
    "qwen3": Architecture(norms=True),
    "gemma3": Architecture(norms=True, behind=True, gelu=True, scaled=True, pattern=6),
}
"""The architectures that qmlir knows, by the names that files give them."""

GEMMA_27B = 62
"""The layers by which llama.cpp, too, knows the one Gemma 3 whose scores have another scale."""

LARGEST = 1 << 24
"""The largest size that a file may state: more than any model has, and few enough to multiply two of them."""


@dataclass(frozen=True)
class Sight:
    """What the tokens of a layer see of their past, and by which angles.

    base    the base of the angles' frequencies
    factor  what places are divided by before they become angles
    window  how many places, the current one included, a token sees; None for all
    """

    base: float
    factor: float
    window: int | None


@dataclass(frozen=True)
class Settings:
    """The network that a file holds.

    architecture  what its family has in different forms
    layers        its blocks of attention and feed-forward network
    width         the elements of the residual stream
    inner         the elements between up and down projection
    heads         heads of queries
    kv_heads      heads of keys and values
    head          the elements of a head of queries and keys
    value         the elements of a head of values
    epsilon       what normalizations add to the mean square
    scale         what scores are multiplied by
    wide          what the tokens of every so manieth layer see, by the architecture's pattern
    narrow        what those of the other layers see
    context       the places that the model was trained for; None if the file does not say
    """

    architecture: Architecture
    layers: int
    width: int
    inner: int
    heads: int
    kv_heads: int
    head: int
    value: int
    epsilon: float
    scale: float
    wide: Sight
    narrow: Sight
    context: int | None

    def sight(self, layer: int) -> Sight:
        """What the tokens of a layer see."""
        return self.narrow if (layer + 1) % self.architecture.pattern else self.wide

    @staticmethod
    def of(file: File) -> "Settings":
        """Reads the settings of a file.

        Raises:
            FileError: The architecture is none of the family, or a setting is missing or wrong, or qmlir cannot build
                its network.
        """
        name = file.metadata.get("general.architecture")
        if not isinstance(name, str) or name not in ARCHITECTURES:
            raise FileError(
                file.name, f"its general.architecture must be of the Llama family: {', '.join(ARCHITECTURES)}",
                got=str(name), remedy=OTHER_REMEDY,
            )  # fmt: skip
        keys = _Keys(file, name)
        keys.refuse_others()
        width, heads = keys.size("embedding_length"), keys.size("attention.head_count")
        kv_heads = keys.size("attention.head_count_kv", heads)
        if heads % kv_heads:
            raise keys.error("attention.head_count", f"must be a multiple of {kv_heads}, the heads of keys", heads)
        head = keys.size("attention.key_length", max(width // heads, 1))
        turned = keys.size("rope.dimension_count", head)
        if turned != head or head % 2:
            raise keys.error("rope.dimension_count", f"must be the {head} elements of a head, an even number", turned)
        return Settings(
            ARCHITECTURES[name], keys.size("block_count"), width, keys.size("feed_forward_length"), heads, kv_heads,
            head, keys.size("attention.value_length", head),
            keys.number("attention.layer_norm_rms_epsilon"), keys.number("attention.scale", head**-0.5), *keys.sights(),
            keys.size("context_length", 0, least=0) or None,
        )  # fmt: skip


@dataclass(frozen=True)
class _Keys:
    """The metadata of a file that belong to its architecture, whose name begins their keys."""

    file: File
    name: str

    def error(self, key: str, need: str, got: object, remedy: str = OTHER_REMEDY) -> FileError:
        return FileError(self.file.name, f"its {self.name}.{key} {need}", got=str(got), remedy=remedy)

    def value(self, key: str) -> Value:
        """Returns a key's value; a list of equal numbers, one for each layer, is that number. None if it is missing."""
        value = self.file.metadata.get(f"{self.name}.{key}")
        if isinstance(value, np.ndarray):
            if not value.size or (value != value[0]).any():
                raise self.error(key, "must be the same in all layers", value[:8].tolist())
            return value[0].item()
        return value

    def size(self, key: str, default: int | None = None, least: int = 1) -> int:
        """Returns a size; without a default, it must be there."""
        value = default if (found := self.value(key)) is None else found
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST:
            raise self.error(key, f"must be a whole number from {least} to {LARGEST}", value)
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """Returns a positive number; without a default, it must be there."""
        value = default if (found := self.value(key)) is None else found
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < np.finfo(np.float32).max:
            raise self.error(key, "must be a positive number", value)
        return float(value)

    def factor(self) -> float:
        """Returns what places are divided by: 1 without a scaling of angles, else the factor of the linear one."""
        kind = self.value("rope.scaling.type")
        if kind not in (None, "none", "linear"):
            raise self.error("rope.scaling.type", "must be none or linear", kind)
        return 1.0 if kind == "none" else self.number("rope.scaling.factor", self.number("rope.scale_linear", 1.0))

    def sights(self) -> tuple[Sight, Sight]:
        """Returns what the tokens of wide and of narrow layers see. Where the two differ, so do the bases of angles."""
        base, window = self.number("rope.freq_base", 10000.0), self.size("attention.sliding_window", 0, least=0) or None
        if ARCHITECTURES[self.name].pattern == 1:
            same = Sight(base, self.factor(), window)
            return same, same
        return Sight(base, self.factor(), None), Sight(self.number("rope.freq_base_swa", 10000.0), 1.0, window)

    def refuse_others(self) -> None:
        """Raises FileError if a key says that the network has a part that qmlir does not build."""
        pattern = ARCHITECTURES[self.name].pattern
        if self.name == "gemma3" and (layers := self.value("block_count")) == GEMMA_27B:
            raise self.error(
                "block_count", "must not be 62: Gemma 3 27B scales scores by a number that its file lacks", layers
            )
        for key, need, plain in (
            ("expert_count", "must be 0: qmlir builds no mixture of experts", (None, 0)),
            ("attention.causal", "must be true: qmlir builds decoders", (None, True)),
            (
                "attention.sliding_window_pattern",
                f"must be {pattern} or missing, as in all networks of its architecture",
                (None, pattern),
            ),
        ):
            if (got := self.value(key)) not in plain:
                raise self.error(key, need, got)
