"""Greedy generation with a quantized decoder: token ids in, token ids out, one by one as they are found.

    python generate.py model.mlir 17 4 99 --count 20

The network has the entries `prefill`, which takes N tokens a call, and `decode`, which takes one. Both take `token` and
`pos`, as networks read from GGUF files do, and give `logits`. A tokenizer makes ids of text and text of ids.
"""

import argparse
from collections.abc import Iterator, Sequence

import numpy as np

import qmlir
from qmlir.ir.callable_network import CallableNetwork


def logits(network: CallableNetwork, tokens: Sequence[int], at: int) -> np.ndarray:
    """Runs an entry on tokens at consecutive places; returns the logits of the last token."""
    places = np.arange(at, at + len(tokens))
    given = {"token": np.array(tokens, np.int64), "pos": places}
    inputs = {spec.name: given[spec.name].reshape(spec.shape) for spec in network.signature.inputs}
    return network(inputs)[-1]


def generate(network: CallableNetwork, prompt: Sequence[int], count: int) -> Iterator[int]:
    """Yields the most likely next token, again and again.

    The prompt passes in calls of as many tokens as `prefill` takes, and the rest of it token by token. The network
    computes on integers, so that any division of the prompt gives the same bits.
    """
    network.reset()
    rows, at, last = network["prefill"].signature.inputs[0].shape[0], 0, np.zeros(0)
    while len(prompt) - at >= rows:
        last = logits(network["prefill"], prompt[at : at + rows], at)
        at += rows
    for token in prompt[at:]:
        last = logits(network["decode"], [token], at)
        at += 1
    for _ in range(count):
        token = int(last.argmax())  # the largest number is that of the largest integer
        yield token
        last = logits(network["decode"], [token], at)
        at += 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Generates tokens greedily.")
    parser.add_argument("model", help="an .mlir file with the entries prefill and decode")
    parser.add_argument("prompt", type=int, nargs="+", help="token ids")
    parser.add_argument("--count", type=int, default=20, help="how many tokens to generate (default: 20)")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    for found in generate(qmlir.compile(arguments.model, arguments.threads), arguments.prompt, arguments.count):
        print(found, end=" ", flush=True)
    print()
