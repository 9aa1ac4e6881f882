"""What code needs that runs without a C library: copies of memory, and quotients of integers wider than registers.

On Linux LLVM calls memcpy for the former, and functions of the compiler, `__udivdi3` or `__aeabi_uldivmod`, for the
latter. On a system that has neither, the code brings functions of its own in LLVM IR, which call nothing. No function
of a network in C has such a name, and they are internal: a program may hold several networks. The attribute
`no-builtins` of every function keeps LLVM from making calls of memcpy and memset out of loops.
"""

from collections.abc import Mapping

COPY = "qmlir.copy"

COPY_TEXT = """
define internal void @qmlir.copy(ptr noalias %to, ptr noalias readonly %from, i32 %size)
    nounwind noinline "no-builtins" {
  %whole = and i32 %size, -4
  br label %words
words:
  %i = phi i32 [ 0, %0 ], [ %i.next, %word ]
  %more = icmp ult i32 %i, %whole
  br i1 %more, label %word, label %bytes
word:
  %p = getelementptr inbounds i8, ptr %from, i32 %i
  %q = getelementptr inbounds i8, ptr %to, i32 %i
  %four = load i32, ptr %p, align 1
  store i32 %four, ptr %q, align 1
  %i.next = add nuw i32 %i, 4
  br label %words
bytes:
  %j = phi i32 [ %whole, %words ], [ %j.next, %byte ]
  %left = icmp ult i32 %j, %size
  br i1 %left, label %byte, label %done
byte:
  %r = getelementptr inbounds i8, ptr %from, i32 %j
  %s = getelementptr inbounds i8, ptr %to, i32 %j
  %one = load i8, ptr %r, align 1
  store i8 %one, ptr %s, align 1
  %j.next = add nuw i32 %j, 1
  br label %bytes
done:
  ret void
}
"""
"""Copies `size` bytes, by words as long as there are four."""

UNSIGNED_TEXT = """
define internal i64 @qmlir.udiv(i64 %a, i64 %b) nounwind noinline "no-builtins" {
  %both = or i64 %a, %b
  %high = lshr i64 %both, 32
  %small = icmp eq i64 %high, 0
  br i1 %small, label %short, label %long
short:
  %a.low = trunc i64 %a to i32
  %b.low = trunc i64 %b to i32
  %q.low = udiv i32 %a.low, %b.low
  %q.short = zext i32 %q.low to i64
  ret i64 %q.short
long:
  %less = icmp ult i64 %a, %b
  br i1 %less, label %none, label %align
none:
  ret i64 0
align:
  %zeros.a = call i64 @llvm.ctlz.i64(i64 %a, i1 true)
  %zeros.b = call i64 @llvm.ctlz.i64(i64 %b, i1 true)
  %distance = sub i64 %zeros.b, %zeros.a
  %first = shl i64 %b, %distance
  %steps = trunc i64 %distance to i32
  br label %step
step:
  %n = phi i32 [ %steps, %align ], [ %n.next, %step ]
  %rest = phi i64 [ %a, %align ], [ %rest.next, %step ]
  %by = phi i64 [ %first, %align ], [ %by.next, %step ]
  %q = phi i64 [ 0, %align ], [ %q.next, %step ]
  %fits = icmp uge i64 %rest, %by
  %taken = select i1 %fits, i64 %by, i64 0
  %rest.next = sub i64 %rest, %taken
  %bit = zext i1 %fits to i64
  %twice = shl i64 %q, 1
  %q.next = or i64 %twice, %bit
  %by.next = lshr i64 %by, 1
  %n.next = sub i32 %n, 1
  %last = icmp eq i32 %n, 0
  br i1 %last, label %done, label %step
done:
  ret i64 %q.next
}
declare i64 @llvm.ctlz.i64(i64, i1)
"""
"""Divides by the processor's own division if both fit in 32 bits, and else bit by bit from the quotient's first."""

SIGNED_TEXT = """
define internal i64 @qmlir.sdiv(i64 %a, i64 %b) nounwind noinline "no-builtins" {
  %a.sign = ashr i64 %a, 63
  %b.sign = ashr i64 %b, 63
  %a.flipped = xor i64 %a, %a.sign
  %b.flipped = xor i64 %b, %b.sign
  %a.size = sub i64 %a.flipped, %a.sign
  %b.size = sub i64 %b.flipped, %b.sign
  %q = call i64 @qmlir.udiv(i64 %a.size, i64 %b.size)
  %sign = xor i64 %a.sign, %b.sign
  %flipped = xor i64 %q, %sign
  %quotient = sub i64 %flipped, %sign
  ret i64 %quotient
}
"""
"""Rounds toward zero."""

REMAINDER_TEXT = """
define internal i64 @qmlir.<S>rem(i64 %a, i64 %b) nounwind noinline "no-builtins" {
  %q = call i64 @qmlir.<S>div(i64 %a, i64 %b)
  %whole = mul i64 %q, %b
  %rest = sub i64 %a, %whole
  ret i64 %rest
}
"""

DIVISIONS: Mapping[str, Mapping[str, str]] = {
    "udiv": {"qmlir.udiv": UNSIGNED_TEXT},
    "sdiv": {"qmlir.udiv": UNSIGNED_TEXT, "qmlir.sdiv": SIGNED_TEXT},
    "urem": {"qmlir.udiv": UNSIGNED_TEXT, "qmlir.urem": REMAINDER_TEXT.replace("<S>", "u")},
    "srem": {
        "qmlir.udiv": UNSIGNED_TEXT,
        "qmlir.sdiv": SIGNED_TEXT,
        "qmlir.srem": REMAINDER_TEXT.replace("<S>", "s"),
    },
}
"""LLVM's instruction → the functions that take its place for 64 bits: name → text; `qmlir.` and its name is called."""
