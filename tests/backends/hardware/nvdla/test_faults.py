"""Seeded faults in the functional model: each makes at least one vector differ, or hang."""

from collections.abc import Callable
from pathlib import Path

import pytest

from qmlir.backends.hardware import nvdla
from qmlir.errors import QmlirError
from tests.backends.hardware.faults import faulty
from tests.backends.hardware.nvdla.vectors import vectors

HELPERS = "from qmlir.backends.hardware.nvdla.arithmetic import saturated, wrapped\n"
"""What texts of faults call and their modules may not have."""

FAULTS = {
    "halves towards plus infinity": ("arithmetic", "(1 << shift - 1) - (x < 0)", "(1 << shift - 1)"),
    "halves to even": ("arithmetic", "(1 << shift - 1) - (x < 0)", "(1 << shift - 1) - (x >> shift & 1 ^ 1)"),
    "sums that are shortened without rounding": (
        "convolution",
        "return saturated(rounded(sums, shift), 32)",
        "return saturated(sums >> shift, 32)",
    ),
    "padding of 0": ("convolution", 'float(signed(self.csc["PAD_VALUE"], 8))', "0.0"),
    "padding at the other side": (
        "convolution",
        'self.cdma["PAD_TOP"], self.cdma["PAD_LEFT"]',
        'self.cdma["PAD_LEFT"], 0',
    ),
    "dilations exchanged": (
        "convolution",
        'self.csc["Y_DILATION_EXT"] + 1, self.csc["X_DILATION_EXT"] + 1',
        'self.csc["X_DILATION_EXT"] + 1, self.csc["Y_DILATION_EXT"] + 1',
    ),
    "kernels before columns in weights": (
        "convolution",
        "reshape(count, blocks, rows, columns, kernels, ATOM).transpose(0, 4, 2, 3, 1, 5)",
        "reshape(count, blocks, rows, kernels, columns, ATOM).transpose(0, 3, 2, 4, 1, 5)",
    ),
    "channels of pixels reversed": ("convolution", "(3, 2, 1, 0): (0xF, 0x13)", "(0, 1, 2, 3): (0xF, 0x13)"),
    "pixels with a sign": ("convolution", 'if cdma["PIXEL_SIGN_OVERRIDE"] else image', "if True else image"),
    "offset of pixels after the scale": (
        "convolution",
        '(values - offsets) * signed(self.cdma["CVT_SCALE"], 16)',
        'values * signed(self.cdma["CVT_SCALE"], 16) - offsets',
    ),
    "BN before BS": ("sdp", '{"BS": "BRDMA", "BN": "NRDMA"}', '{"BN": "NRDMA", "BS": "BRDMA"}'),
    "pairs of operands exchanged": (
        "sdp",
        "Operands(values[..., 0::2], values[..., 1::2])",
        "Operands(values[..., 1::2], values[..., 0::2])",
    ),
    "sums of 32 bits": ("sdp", "return x + operand", "return saturated(x + operand, 32)"),
    "operands wrap when they are shifted": (
        "sdp",
        "saturated(operand << min(shift, 32), 32)",
        "wrapped(operand << min(shift, 32), 32)",
    ),
    "ReLU before MUL": ("sdp", "products = x * _operand", "x = np.maximum(x, 0)\n            products = x * _operand"),
    "PReLU of all": ("sdp", "np.where(x < 0, y, wrapped(x, 32)) if", "y if"),
    "products wrap": (
        "sdp",
        "y = saturated(_shifted(products, shift), 32)",
        "y = wrapped(_shifted(products, shift), 32)",
    ),
    "offset after the scale": ("sdp", "(x - offset) * scale", "x * scale - offset"),
    "results wrap": ("sdp", "saturated(_shifted((x - offset)", "wrapped(_shifted((x - offset)"),
    "surfaces without gaps": (
        "memory",
        "return self.surface, self.line,",
        "return self.height * self.line, self.line,",
    ),
    "maxima see padding": ("pdp", "(-128, np.maximum)", "(0, np.maximum)"),
    "padding of whole rows counts once": ("pdp", "pads[n] * self.kernel[1]", "pads[n]"),
    "one rounding of averages": (
        "pdp",
        'mean = _fraction(wrapped(x * self.pdp["RECIP_KERNEL_WIDTH"], 31), 11)',
        'return _fraction(x * self.pdp["RECIP_KERNEL_WIDTH"] * self.pdp["RECIP_KERNEL_HEIGHT"] >> 16, 8)',
    ),
    "averages saturate": ("pdp", "return wrapped(np.where(products < 0", "return saturated(np.where(products < 0"),
    "one group of registers": ("units", "self.consumer = False, 1 - group", "self.consumer = False, group"),
    "the interrupt of the other group": ("machine", "DONE[interrupt] << group", "DONE[interrupt] << 1 - group"),
}
"""Faults: a module of the model, text of it, and the text that takes its place."""


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_caught(fault: str, shared: Callable[[str], Path], tmp_path: Path) -> None:
    programs = vectors(shared)
    module, old, new = FAULTS[fault]
    machine = faulty(nvdla, tmp_path, module, old, new, "" if module == "arithmetic" else HELPERS)("machine")

    def caught() -> bool:
        for vector in programs:
            try:
                memory = machine.run(vector.program)
            except QmlirError:
                return True
            if vector.differing(memory):
                return True
        return False

    assert caught()
