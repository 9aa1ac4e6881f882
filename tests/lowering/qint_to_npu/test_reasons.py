"""The sentences that say why the host computes what the device could."""

from qmlir.lowering.qint_to_npu.partition import transfer_reason


def test_the_host_never_takes_a_negative_number_of_cycles() -> None:
    more, less = (transfer_reason(502, 1, "nmp", host) for host in (40, -40))
    assert more.startswith("its boundary transfers would cost 502 cycles beside the 1 that nmp takes at least; ")
    assert more.endswith("; the host takes 40 (fallback)")
    assert less.endswith("; with it, the calls of the host take 40 less (fallback)")
