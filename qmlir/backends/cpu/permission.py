"""Asking the system for the registers of a matrix unit, AMX, whose use is otherwise a fault.

Linux grants them to a process, for all its threads, when it asks by a system call. Code that is compiled in memory is
run by a process that has asked (`matrix_registers_granted`). An object file asks by itself, before a program's `main`
or while a library is loaded: it calls no library, so the system call is an instruction.
"""

import ctypes
import platform
import sys
from functools import cache

ARCH_PRCTL, PERMIT_REGISTERS, MATRIX_REGISTERS = 158, 0x1023, 18
"""The number of a system call of Linux on x86-64, a request of it, and the registers: the data of AMX."""

REQUEST = f"""
define internal void @request_matrix_registers() nounwind {{
  %refused = call i64 asm sideeffect "syscall", "={{rax}},{{rax}},{{rdi}},{{rsi}},~{{rcx}},~{{r11}},~{{memory}}"(
      i64 {ARCH_PRCTL}, i64 {PERMIT_REGISTERS}, i64 {MATRIX_REGISTERS})
  ret void
}}
@llvm.global_ctors = appending global [1 x {{ i32, ptr, ptr }}] [
    {{ i32, ptr, ptr }} {{ i32 65535, ptr @request_matrix_registers, ptr null }}]
"""
"""LLVM IR of an object file that asks when it is loaded. Without such a unit the request fails harmlessly."""


@cache
def matrix_registers_granted() -> bool:
    """Asks for the registers for this process; whether the system grants them."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    return ctypes.CDLL(None, use_errno=True).syscall(ARCH_PRCTL, PERMIT_REGISTERS, MATRIX_REGISTERS) == 0
