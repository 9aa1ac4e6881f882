"""Draws the diagrams of the documentation as SVG files, which are committed; a test checks that they are fresh.

python docs/site/diagrams.py            writes docs/images/pipeline.svg
python docs/site/diagrams.py --check    exit status 1 if the file is not what this script draws
"""

import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path

IMAGES = Path(__file__).resolve().parents[1] / "images"

WIDTH, HEIGHT = 1250, 430
INK, EDGE, NOTE = "#1f2937", "#64748b", "#475569"
LEVEL, WAIST, CODE, FILE = "#e0e7ff", "#c7d2fe", "#dcfce7", "#fef3c7"


@dataclass(frozen=True)
class Box:
    """A level or an artifact: its name, a line below the name, and its place."""

    name: str
    below: str
    x: int
    y: int
    width: int = 150
    height: int = 54
    fill: str = LEVEL

    @property
    def left(self) -> tuple[int, int]:
        """The middle of the left side."""
        return self.x, self.y + self.height // 2

    @property
    def right(self) -> tuple[int, int]:
        """The middle of the right side."""
        return self.x + self.width, self.y + self.height // 2

    @property
    def top(self) -> tuple[int, int]:
        """The middle of the upper side."""
        return self.x + self.width // 2, self.y

    @property
    def bottom(self) -> tuple[int, int]:
        """The middle of the lower side."""
        return self.x + self.width // 2, self.y + self.height

    def svg(self) -> str:
        """The box with its two lines."""
        middle, line = self.x + self.width // 2, self.y + self.height // 2
        return (
            f'<rect x="{self.x}" y="{self.y}" width="{self.width}" height="{self.height}" rx="8" fill="{self.fill}" '
            f'stroke="{EDGE}"/>'
            f'<text x="{middle}" y="{line - 4}" class="name">{escape(self.name)}</text>'
            f'<text x="{middle}" y="{line + 14}" class="below">{escape(self.below)}</text>'
        )


def arrow(start: tuple[int, int], end: tuple[int, int], label: str = "", *, above: bool = True) -> str:
    """An arrow with the pass or the folder that takes one level to the next."""
    (x, y), (u, v) = start, end
    line = f'<path d="M{x} {y} L{u} {v}" class="edge" marker-end="url(#tip)"/>'
    at = (y + v) // 2 + (-7 if above else 16)
    anchor = "middle" if abs(u - x) > abs(v - y) else "start"
    left = (x + u) // 2 + (0 if anchor == "middle" else 8)
    return line + (f'<text x="{left}" y="{at}" class="edge-label" text-anchor="{anchor}">{escape(label)}</text>')


def pipeline() -> str:
    """The levels of the IR and the edges between them, from a model file to code."""
    file = Box("model file", ".onnx  .tflite  .mlir", 20, 40, 160, fill=FILE)
    nn = Box("nn", "float, static shapes", 280, 40)
    ranges = Box("nn + calib.observe", "with ranges", 550, 40, 165)
    quant = Box("nn on !quant", "scales, zero points", 805, 40, 160)
    exported = Box("ONNX, TFLite files", "onnxruntime, LiteRT", 1065, 40, 165, fill=CODE)
    qint = Box("qint", "the waist: exact integers", 790, 170, 190, 60, WAIST)
    numpy = Box("reference", "numpy, op by op", 1065, 173, 165, fill=CODE)
    code = Box("machine code", "JIT, or .o .h .weights.bin", 20, 250, 180, fill=CODE)
    llvm = Box("llvm", "upstream's dialect", 290, 250, 140)
    loops = Box("loops + simd", "kernels, one arena", 560, 250)
    program = Box("device program", ".npu, simulated", 280, 350, 160, fill=CODE)
    npu = Box("npu", "layers → tiles → waits", 560, 350, 160)
    out = Box("tosa, linalg", "other MLIR compilers", 800, 350, 170, fill=CODE)
    parts = [
        arrow(file.right, nn.left, "frontends/"),
        arrow(nn.right, ranges.left, "transforms/nn"),
        arrow(ranges.right, quant.left, "quantize"),
        arrow(quant.right, exported.left, "export"),
        arrow(quant.bottom, qint.top, "nn-to-qint"),
        arrow(qint.right, numpy.left, "evaluate"),
        arrow((790, 212), loops.right, "…-to-loops", above=False),
        arrow(loops.left, llvm.right, "loops-to-llvm"),
        arrow(llvm.left, code.right, "LLVM"),
        arrow((808, 230), npu.right, "qint-to-npu", above=False),
        arrow(npu.left, program.right, "assemble"),
        arrow(qint.bottom, out.top, "qint-to-tosa, qint-to-linalg"),
    ]
    boxes = [file, nn, ranges, quant, exported, qint, numpy, loops, llvm, code, npu, program, out]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            'font-family="system-ui, sans-serif">',
            "<title>From a model file through nn, quantized nn and qint to machine code, programs and files</title>",
            "<style>"
            f".name{{font-size:15px;font-weight:600;text-anchor:middle;fill:{INK}}}"
            f".below{{font-size:11.5px;text-anchor:middle;fill:{NOTE}}}"
            f".edge{{stroke:{EDGE};stroke-width:1.6;fill:none}}"
            f".edge-label{{font-size:12px;fill:{NOTE};font-family:ui-monospace,monospace}}"
            "</style>",
            f'<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
            f'orient="auto"><path d="M0 0 L10 5 L0 10 z" fill="{EDGE}"/></marker></defs>',
            f'<rect width="{WIDTH}" height="{HEIGHT}" rx="12" fill="#ffffff"/>',
            *parts,
            *(box.svg() for box in boxes),
            "</svg>",
        ]
    )


def main() -> int:
    """Writes the diagrams, or checks them."""
    path, drawn = IMAGES / "pipeline.svg", pipeline() + "\n"
    if "--check" in sys.argv[1:]:
        fresh = path.is_file() and path.read_text(encoding="utf-8") == drawn
        sys.stderr.write("" if fresh else f"{path.name} is not fresh; run python docs/site/diagrams.py\n")
        return int(not fresh)
    IMAGES.mkdir(exist_ok=True)
    path.write_text(drawn, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
