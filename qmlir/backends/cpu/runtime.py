"""Functions for what a processor has no instruction for, in LLVM IR: LLVM calls them by the names that libraries have.

Arm's processors of version 6-M (Cortex-M0) multiply words of 32 bits, and have neither divisions nor shifts by a number
of bits that is not known before. A network for them holds the functions that it calls, so that it needs no library as
for other processors. They are weak: a program whose compiler's library has them, too, takes one of the two.
"""

from collections.abc import Collection, Mapping

FUNCTION = 'define weak hidden {signature} noinline optnone nounwind "no-builtins" {{\n{body}}}\n'
"""Not optimized, so that LLVM does not find an operation in the body that it would call the function for."""

JOINED = """
  %low.64 = zext i32 %low to i64
  %high.64 = zext i32 %high to i64
  %high.up = shl i64 %high.64, 32
  %both = or i64 %high.up, %low.64
  ret i64 %both
"""


def _halves(name: str) -> str:
    """The two words of an argument of 64 bits."""
    return f"""
  %{name}.low = trunc i64 %{name} to i32
  %{name}.up = lshr i64 %{name}, 32
  %{name}.high = trunc i64 %{name}.up to i32
"""


MULTIPLY = f"""{_halves("a")}{_halves("b")}
  %a0 = and i32 %a.low, 65535
  %a1 = lshr i32 %a.low, 16
  %b0 = and i32 %b.low, 65535
  %b1 = lshr i32 %b.low, 16
  %p00 = mul i32 %a0, %b0
  %p01 = mul i32 %a0, %b1
  %p10 = mul i32 %a1, %b0
  %p11 = mul i32 %a1, %b1
  %p00.up = lshr i32 %p00, 16
  %first = add i32 %p10, %p00.up
  %first.low = and i32 %first, 65535
  %second = add i32 %p01, %first.low
  %second.up = shl i32 %second, 16
  %p00.low = and i32 %p00, 65535
  %low = or i32 %second.up, %p00.low
  %first.high = lshr i32 %first, 16
  %second.high = lshr i32 %second, 16
  %carried = add i32 %p11, %first.high
  %product = add i32 %carried, %second.high
  %cross.0 = mul i32 %a.low, %b.high
  %cross.1 = mul i32 %a.high, %b.low
  %one = add i32 %product, %cross.0
  %high = add i32 %one, %cross.1
{JOINED}"""

LEFT = f"""{_halves("x")}
  %few = and i32 %n, 31
  %rest = sub i32 31, %few
  %half = lshr i32 %x.low, 1
  %moved = lshr i32 %half, %rest
  %high.up = shl i32 %x.high, %few
  %high.few = or i32 %high.up, %moved
  %low.few = shl i32 %x.low, %few
  %many = icmp uge i32 %n, 32
  %high = select i1 %many, i32 %low.few, i32 %high.few
  %low = select i1 %many, i32 0, i32 %low.few
{JOINED.replace("high.up", "high.at")}"""


def _right(shift: str, rest: str) -> str:
    """A shift to the right; `rest` is what the high word becomes after 32 bits and more."""
    return f"""{_halves("x")}
  %few = and i32 %n, 31
  %rest = sub i32 31, %few
  %twice = shl i32 %x.high, 1
  %moved = shl i32 %twice, %rest
  %low.down = lshr i32 %x.low, %few
  %low.few = or i32 %low.down, %moved
  %high.few = {shift} i32 %x.high, %few
  %sign = ashr i32 %x.high, 31
  %many = icmp uge i32 %n, 32
  %low = select i1 %many, i32 %high.few, i32 %low.few
  %high = select i1 %many, i32 {rest}, i32 %high.few
{JOINED}"""


LEADING_ZEROS = "".join(
    f"""
  %top.{bits} = lshr i32 %x.{bits}, {32 - bits}
  %empty.{bits} = icmp eq i32 %top.{bits}, 0
  %up.{bits} = shl i32 %x.{bits}, {bits}
  %more.{bits} = add i32 %n.{bits}, {bits}
  %x.{bits // 2} = select i1 %empty.{bits}, i32 %up.{bits}, i32 %x.{bits}
  %n.{bits // 2} = select i1 %empty.{bits}, i32 %more.{bits}, i32 %n.{bits}
"""
    for bits in (16, 8, 4, 2, 1)
)
COUNT_LEADING_ZEROS = f"""  %x.16 = add i32 %x, 0
  %n.16 = add i32 0, 0
{LEADING_ZEROS}
  %none = icmp eq i32 %x, 0
  %count = select i1 %none, i32 32, i32 %n.0
  ret i32 %count
"""

DIVIDE = """  br label %next
next:
  %left = phi i32 [ 32, %0 ], [ %fewer, %next ]
  %rest = phi i32 [ 0, %0 ], [ %rest.new, %next ]
  %bits = phi i32 [ %a, %0 ], [ %bits.new, %next ]
  %carry = icmp slt i32 %rest, 0
  %rest.up = shl i32 %rest, 1
  %top = lshr i32 %bits, 31
  %rest.more = or i32 %rest.up, %top
  %fits = icmp uge i32 %rest.more, %b
  %takes = or i1 %carry, %fits
  %rest.less = sub i32 %rest.more, %b
  %rest.new = select i1 %takes, i32 %rest.less, i32 %rest.more
  %bits.up = shl i32 %bits, 1
  %bit = zext i1 %takes to i32
  %bits.new = or i32 %bits.up, %bit
  %fewer = sub i32 %left, 1
  %ended = icmp eq i32 %fewer, 0
  br i1 %ended, label %done, label %next
done:
  ret i32 %bits.new
"""
"""A bit of the quotient in each round, the highest first."""

SIGNED_DIVIDE = """  %a.sign = ashr i32 %a, 31
  %b.sign = ashr i32 %b, 31
  %a.flipped = xor i32 %a, %a.sign
  %b.flipped = xor i32 %b, %b.sign
  %a.size = sub i32 %a.flipped, %a.sign
  %b.size = sub i32 %b.flipped, %b.sign
  %quotient = call i32 @__udivsi3(i32 %a.size, i32 %b.size)
  %sign = xor i32 %a.sign, %b.sign
  %flipped = xor i32 %quotient, %sign
  %signed = sub i32 %flipped, %sign
  ret i32 %signed
"""


def _remainder(divide: str) -> str:
    return f"""  %quotient = call i32 @{divide}(i32 %a, i32 %b)
  %whole = mul i32 %quotient, %b
  %rest = sub i32 %a, %whole
  ret i32 %rest
"""


FUNCTIONS: Mapping[str, tuple[str, str]] = {
    "__muldi3": ("i64 @__muldi3(i64 %a, i64 %b)", MULTIPLY),
    "__ashldi3": ("i64 @__ashldi3(i64 %x, i32 %n)", LEFT),
    "__lshrdi3": ("i64 @__lshrdi3(i64 %x, i32 %n)", _right("lshr", "0")),
    "__ashrdi3": ("i64 @__ashrdi3(i64 %x, i32 %n)", _right("ashr", "%sign")),
    "__clzsi2": ("i32 @__clzsi2(i32 %x)", COUNT_LEADING_ZEROS),
    "__udivsi3": ("i32 @__udivsi3(i32 %a, i32 %b)", DIVIDE),
    "__divsi3": ("i32 @__divsi3(i32 %a, i32 %b)", SIGNED_DIVIDE),
    "__umodsi3": ("i32 @__umodsi3(i32 %a, i32 %b)", _remainder("__udivsi3")),
    "__modsi3": ("i32 @__modsi3(i32 %a, i32 %b)", _remainder("__divsi3")),
}
"""Name → the function's signature in LLVM IR, and its body."""

CALLED: Mapping[str, tuple[str, ...]] = {
    "__divsi3": ("__udivsi3",),
    "__umodsi3": ("__udivsi3",),
    "__modsi3": ("__divsi3", "__udivsi3"),
}
"""Function → the functions that it calls."""


def runtime_text(called: Collection[str]) -> str:
    """Returns the LLVM IR that defines the called functions of `FUNCTIONS`, and the functions that these call.

    Args:
        called: The names of the functions that machine code calls; names that `FUNCTIONS` lacks are left to the linker.
    """
    needed = {name for each in called if each in FUNCTIONS for name in (each, *CALLED.get(each, ()))}
    return "".join(
        FUNCTION.format(signature=signature, body=body)
        for name, (signature, body) in FUNCTIONS.items()
        if name in needed
    )
