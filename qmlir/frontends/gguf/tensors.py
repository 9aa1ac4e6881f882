"""Which tensors a file of the Llama family has, and their shapes; all are checked before anything is read."""

from collections.abc import Iterator

from qmlir.errors import FileError
from qmlir.frontends.cut import listed
from qmlir.frontends.gguf.reader import AGAIN_REMEDY, File
from qmlir.frontends.gguf.settings import OTHER_REMEDY, Settings

EMBEDDING, OUTPUT, PERIODS = "token_embd.weight", "output.weight", "rope_freqs.weight"

Expected = tuple[str, tuple[int, ...], bool]
"""A tensor's name, its shape, and whether it must be there."""


def expected_tensors(settings: Settings, vocabulary: int) -> Iterator[Expected]:
    """Yields the tensors that a network may have, layer by layer."""
    s = settings
    yield EMBEDDING, (vocabulary, s.width), True
    yield OUTPUT, (vocabulary, s.width), False
    yield PERIODS, (s.head // 2,), False
    linear = {
        "attn_q": (s.heads * s.head, s.width),
        "attn_k": (s.kv_heads * s.head, s.width),
        "attn_v": (s.kv_heads * s.value, s.width),
        "attn_output": (s.width, s.heads * s.value),
        "ffn_gate": (s.inner, s.width),
        "ffn_up": (s.inner, s.width),
        "ffn_down": (s.width, s.inner),
    }
    norms = {"attn_norm": s.width, "ffn_norm": s.width}
    norms |= {"attn_q_norm": s.head, "attn_k_norm": s.head} if s.architecture.norms else {}
    norms |= {"post_attention_norm": s.width, "post_ffw_norm": s.width} if s.architecture.behind else {}
    for layer in range(s.layers):
        for name, size in norms.items():
            yield f"blk.{layer}.{name}.weight", (size,), True
        for name, shape in linear.items():
            yield f"blk.{layer}.{name}.weight", shape, True
            yield f"blk.{layer}.{name}.bias", shape[:1], False
    yield "output_norm.weight", (s.width,), True


def check_tensors(file: File, settings: Settings) -> None:
    """Checks that a file has the tensors of its network, each of its shape, and no others.

    Raises:
        FileError: It has not.
    """
    embedding, known = file.tensors.get(EMBEDDING), set[str]()
    for name, shape, needed in expected_tensors(settings, 0 if embedding is None else embedding.shape[0]):
        known.add(name)
        entry = file.tensors.get(name)
        if entry is None and needed:
            raise FileError(file.name, f'must have the tensor "{name}"', got="none", remedy=AGAIN_REMEDY)
        if entry is not None and entry.shape != shape:
            need, got = f'tensor "{name}" must be of shape {list(shape)}', str(list(entry.shape))
            raise FileError(file.name, need, got=got, remedy=AGAIN_REMEDY)
    if others := sorted(set(file.tensors) - known):
        need = "must have no tensors but those of its architecture"
        raise FileError(file.name, need, got=listed(others), remedy=OTHER_REMEDY)
