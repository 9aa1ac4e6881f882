"""The stack of generated code, as its assembly text says: frames of every architecture, paths, what is not known."""

import pytest

import qmlir
from qmlir.backends.cpu.stack import called_outside, stack_bytes
from tests.conftest import ROOT

FRAMES = {
    "x86": ("main:\n pushq %rbx\n subq $40, %rsp\n addq $40, %rsp\n popq %rbx\n retq\n", 8 + 8 + 40),
    "x86, arguments": ("main:\n pushq $1\n pushq %rax\n callq f\n addq $16, %rsp\n retq\nf:\n retq\n", 8 + 16 + 8),
    "x86, aligned": (
        "main:\n pushq %rbp\n movq %rsp, %rbp\n andq $-64, %rsp\n subq $64, %rsp\n retq\n",
        8 + 8 + 63 + 64,
    ),
    "thumb": ("main:\n push.w {r4, r5, r6, lr}\n sub sp, #20\n add sp, #20\n pop.w {r4, r5, r6, pc}\n", 16 + 20),
    "thumb, floats": ("main:\n vpush {d8, d9}\n sub.w sp, sp, #1040\n bx lr\n", 16 + 1040),
    "thumb, aligned": (
        "main:\n push {r4, lr}\n sub.w r4, sp, #128\n bfc r4, #0, #6\n mov sp, r4\n bx lr\n",
        8 + 128 + 63,
    ),
    "aarch64": (
        "main:\n stp x29, x30, [sp, #-96]!\n sub sp, sp, #1, lsl #12\n ldp x29, x30, [sp], #96\n ret\n",
        96 + 4096,
    ),
    "aarch64, aligned": ("main:\n sub x9, sp, #80\n and sp, x9, #0xffffffffffffffc0\n ret\n", 80 + 63),
    "risc-v": ("main:\n addi sp, sp, -112\n sw ra, 108(sp)\n addi sp, sp, 112\n ret\n", 112),
    "webassembly": ("main:\n global.get __stack_pointer\n i32.const 32\n i32.sub \n local.tee 3\n end_function\n", 32),
}


@pytest.mark.parametrize("name", FRAMES)
def test_frames(name: str) -> None:
    text, size = FRAMES[name]
    assert stack_bytes(text, "main") == size


def test_the_deepest_path_counts() -> None:
    """A jump in place of a call is made when the frame is gone; what a branch leaves out is not counted twice."""
    text = (
        "main:\n push {r4, lr}\n cmp r0, #0\n beq .L1\n sub sp, #16\n bl f\n add sp, #16\n pop {r4, pc}\n"
        ".L1:\n pop {r4, lr}\n b g\n"
        "f:\n push {r4, r5, r6, lr}\n pop {r4, r5, r6, pc}\n"
        "g:\n sub sp, #36\n add sp, #36\n bx lr\n"
    )
    assert stack_bytes(text, "main") == 8 + 16 + 16
    assert stack_bytes(text.replace("#36", "#44"), "main") == 44


@pytest.mark.parametrize(
    "text",
    ["main:\n sub sp, sp, t0\n ret\n", "main:\n blx r3\n bx lr\n", "main:\n callq *%rax\n retq\n"],
)
def test_what_is_not_known(text: str) -> None:
    assert stack_bytes(text, "main") is None


def test_functions_of_others_are_found() -> None:
    text = "main:\n callq memset@PLT\n callq f\n jmp g@PLT\nf:\n.L2:\n jmp .L2\n retq\n"
    assert called_outside(text) == {"memset", "g"}


@pytest.mark.slow
@pytest.mark.parametrize("cpu", ["cortex-m4", "rv32imc", "x86-64-v3", "cortex-a53"])
def test_code_for_little_memory_takes_little_stack(cpu: str) -> None:
    module = qmlir.load(ROOT / "examples" / "digits" / "digits.onnx")
    text = qmlir.compile(qmlir.Pipeline("simplify")(module), cpu=cpu, memory="small", cache=False).assembly()
    size = stack_bytes(text, "main")
    assert size is not None
    assert 0 < size <= 1024
