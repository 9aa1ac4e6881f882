"""Networks of the Llama family in plain numpy, in float64, without a cache: what imported networks have to compute."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from qmlir.numerics import Array


def logits(metadata: Mapping[str, Any], w: Mapping[str, Array], tokens: Array) -> Array:
    """The logits at each place of a sequence, [places, vocabulary]."""
    name = metadata["general.architecture"]
    own = {key.removeprefix(f"{name}."): given for key, given in metadata.items()}
    heads, kv = own["attention.head_count"], int(np.ravel(own["attention.head_count_kv"])[0])
    head = own.get("attention.key_length", own["embedding_length"] // heads)
    factor = own.get("rope.scaling.factor", 1.0) if own.get("rope.scaling.type", "linear") == "linear" else 1.0
    place = np.arange(len(tokens))
    angle = place[:, None] / factor / own.get("rope.freq_base", 10000.0) ** (np.arange(0, head, 2) / head)
    angle = angle / w.get("rope_freqs.weight", 1.0)
    turn = np.exp(1j * angle)[:, None]
    far = place[:, None] - place
    window = own.get("attention.sliding_window") or len(tokens)
    hidden = (far < 0) | (far >= window)

    def norm(x: Array, which: str) -> Array:
        eps = own["attention.layer_norm_rms_epsilon"]
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * w[f"{which}.weight"]

    def linear(x: Array, which: str) -> Array:
        return x @ w[f"{which}.weight"].T + w.get(f"{which}.bias", 0.0)

    def turned(x: Array) -> Array:
        if name == "llama":
            z = (x[..., ::2] + 1j * x[..., 1::2]) * turn
            return np.stack([z.real, z.imag], -1).reshape(x.shape)
        z = (x[..., : head // 2] + 1j * x[..., head // 2 :]) * turn
        return np.concatenate([z.real, z.imag], -1)

    x = w["token_embd.weight"][tokens]
    for i in range(own["block_count"]):
        at = f"blk.{i}."
        y = norm(x, at + "attn_norm")
        q, k, v = (
            linear(y, f"{at}attn_{n}").reshape(len(tokens), h, -1) for n, h in (("q", heads), ("k", kv), ("v", kv))
        )
        if name == "qwen3":
            q, k = norm(q, at + "attn_q_norm"), norm(k, at + "attn_k_norm")
        q, k = turned(q), turned(k)
        k, v = (np.repeat(a, heads // kv, axis=1) for a in (k, v))
        scores = np.einsum("phd,qhd->hpq", q, k) * own.get("attention.scale", head**-0.5)
        scores = np.exp(np.where(hidden, -np.inf, scores - scores.max()))
        mixed = np.einsum("hpq,qhd->phd", scores / scores.sum(-1, keepdims=True), v)
        x = x + linear(mixed.reshape(len(tokens), -1), at + "attn_output")
        y = norm(x, at + "ffn_norm")
        gate = linear(y, at + "ffn_gate")
        x = x + linear(gate / (1 + np.exp(-gate)) * linear(y, at + "ffn_up"), at + "ffn_down")
    return norm(x, "output_norm") @ w.get("output.weight", w["token_embd.weight"]).T
