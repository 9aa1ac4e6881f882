"""Writes GGUF files: of any metadata and tensors, and of tiny networks of the Llama family with random weights."""

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from qmlir.frontends.gguf.blocks import KINDS
from qmlir.numerics import Array

NUMBERS = {kind.name: number for number, kind in KINDS.items()}
"""The number of each type in a file."""

Stored = tuple[str, tuple[int, ...], bytes]
"""A tensor: its type, its shape, its bytes."""


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def value(given: Any) -> bytes:
    """A value of metadata behind its type."""
    match given:
        case bool():
            return struct.pack("<IB", 7, given)
        case int():
            return struct.pack("<Ii", 5, given)
        case float():
            return struct.pack("<If", 6, given)
        case str():
            return struct.pack("<I", 8) + text(given)
        case [str(), *_]:
            return struct.pack("<IIQ", 9, 8, len(given)) + b"".join(map(text, given))
        case _:
            return struct.pack("<IIQ", 9, 5, len(given)) + np.array(given, "<i4").tobytes()


def file_of(metadata: Mapping[str, Any], tensors: Mapping[str, Stored], version: int = 3) -> bytes:
    """The bytes of a file."""
    alignment = metadata.get("general.alignment", 32)
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    head += b"".join(text(key) + value(given) for key, given in metadata.items())
    data = b""
    for name, (kind, shape, stored) in tensors.items():
        sizes = struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        head += text(name) + sizes + struct.pack("<IQ", NUMBERS[kind], len(data))
        data += stored + b"\0" * (-len(stored) % alignment)
    return head + b"\0" * (-len(head) % alignment) + data


HALVES = {"Q4_0": 1, "Q4_1": 2, "Q5_0": 1, "Q5_1": 2, "Q8_0": 1, "Q4_K": 2, "Q5_K": 2}
"""How many f16 numbers a block begins with; one of Q6_K ends with one."""


def random_tensor(kind: str, shape: tuple[int, ...], rng: np.random.Generator, deviation: float = 0.3) -> Stored:
    """A tensor of random numbers; of a type with blocks, of random blocks."""
    count = int(np.prod(shape))
    if kind in ("F32", "F16", "BF16"):
        numbers = rng.normal(0, deviation, count).astype(np.float32)
        if kind == "BF16":
            return kind, shape, (numbers.view(np.uint32) >> 16).astype("<u2").tobytes()
        return kind, shape, numbers.astype("<f4" if kind == "F32" else "<f2").tobytes()
    own = KINDS[NUMBERS[kind]]
    block = rng.integers(0, 256, (count // own.values, own.bytes), np.uint8)
    scales = rng.normal(0, deviation, (len(block), HALVES.get(kind, 1))) / 2 ** (own.bits - 1)
    scales /= {"Q4_K": 32, "Q5_K": 32, "Q6_K": 64}.get(kind, 1)  # what the scales of groups multiply by
    packed = scales.astype("<f2").view(np.uint8)
    block[:, -2:] = packed if kind == "Q6_K" else block[:, -2:]
    block[:, : packed.shape[1]] = block[:, : packed.shape[1]] if kind == "Q6_K" else packed
    return kind, shape, block.tobytes()


SIZES = {"embedding_length": 32, "feed_forward_length": 64, "attention.head_count": 4, "attention.head_count_kv": 2}
"""The sizes of a tiny network; its heads have 8 elements."""


def parts(
    architecture: str = "llama", kind: str = "F32", *, tied: bool = False, vocabulary: int = 20, layers: int = 2,
    seed: int = 0, scale: int = 1, **changed: Any,
) -> tuple[dict[str, Any], dict[str, Stored]]:  # fmt: skip
    """The metadata and tensors of a tiny network.

    Args:
        architecture: One of the family.
        kind: The type of its weights.
        tied: Whether the last product reads the embedding.
        vocabulary: The number of tokens.
        layers: The number of blocks.
        seed: Of the random numbers.
        scale: What its sizes are multiplied by.
        changed: More metadata of the architecture, `__` for a point in keys.
    """
    rng = np.random.default_rng(seed)
    own = {"block_count": layers, "context_length": 64, "attention.layer_norm_rms_epsilon": 1e-5}
    own |= {key: size * (scale if "length" in key else 1) for key, size in SIZES.items()}
    own |= {key.replace("__", "."): given for key, given in changed.items()}
    metadata = {"general.architecture": architecture, **{f"{architecture}.{k}": v for k, v in own.items()}}
    metadata["tokenizer.ggml.tokens"] = [f"t{i}" for i in range(vocabulary)]
    width, inner = own["embedding_length"], own["feed_forward_length"]
    heads, kv = own["attention.head_count"], int(np.ravel(own["attention.head_count_kv"])[0])
    head = own.get("attention.key_length", width // heads)
    value_head = own.get("attention.value_length", head)
    linear = {
        "attn_q": (heads * head, width), "attn_k": (kv * head, width), "attn_v": (kv * value_head, width),
        "attn_output": (width, heads * value_head), "ffn_gate": (inner, width), "ffn_up": (inner, width),
        "ffn_down": (width, inner),
    }  # fmt: skip
    tensors = {"token_embd.weight": random_tensor(kind, (vocabulary, width), rng)}
    for i in range(layers):
        for name, shape in linear.items():
            tensors[f"blk.{i}.{name}.weight"] = random_tensor(kind, shape, rng)
            if architecture == "qwen2" and name in ("attn_q", "attn_k", "attn_v"):
                tensors[f"blk.{i}.{name}.bias"] = random_tensor("F32", shape[:1], rng)
        norms = ["attn_norm", "ffn_norm"] + ["post_attention_norm", "post_ffw_norm"] * (architecture == "gemma3")
        of_heads = ["attn_q_norm", "attn_k_norm"] * (architecture in ("qwen3", "gemma3"))
        for name in (*norms, *of_heads):
            size = width if name in norms else head
            tensors[f"blk.{i}.{name}.weight"] = random_tensor("F32", (size,), rng, 1)
    tensors["output_norm.weight"] = random_tensor("F32", (width,), rng, 1)
    if not tied:
        tensors["output.weight"] = random_tensor(kind, (vocabulary, width), rng)
    return metadata, tensors


def tiny(architecture: str = "llama", kind: str = "F32", **given: Any) -> bytes:
    """The bytes of a tiny network's file; see `parts`."""
    return file_of(*parts(architecture, kind, **given))


def floats(tensors: Mapping[str, Stored]) -> dict[str, Array]:
    """The tensors as floats."""
    return {
        name: KINDS[NUMBERS[kind]].read(memoryview(data), shape)[0].astype(np.float64)
        for name, (kind, shape, data) in tensors.items()
    }
