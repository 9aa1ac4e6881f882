"""Regions: they lie in their memories, apart from each other, in whole banks."""

from itertools import pairwise

import pytest

from qmlir.devices import load_device, shipped_devices
from qmlir.devices.model.engines import Region, regions, staged_from


@pytest.mark.parametrize("name", shipped_devices())
def test_regions_lie_apart_in_their_memories(name: str) -> None:
    device = load_device(name)
    found = regions(device)
    for memory in device.memory:
        here = sorted((region for (m, _), region in found.items() if m == memory.id), key=lambda r: r.base)
        assert all(region.size > 0 and region.base % memory.align == 0 for region in here)
        assert all(one.end <= other.base for one, other in pairwise(here))
        assert not here or here[0].base == staged_from(memory, device)
        assert not here or here[-1].end <= memory.bytes


@pytest.mark.parametrize("name", shipped_devices())
def test_no_bank_inside_a_device_has_two_roles(name: str) -> None:
    device = load_device(name)
    sizes = {m.id: m.bytes // m.banks for m in device.memory if m.banks > 1 and not m.external}
    banked = [(m, region) for (m, _), region in regions(device).items() if m in sizes]
    assert all(region.base % sizes[m] == 0 == region.size % sizes[m] for m, region in banked)


def test_what_each_role_has_on_nmp() -> None:
    kib = 1024
    assert regions(load_device("nmp")) == {
        ("act", "ifm"): Region(0, 160 * kib),
        ("act", "ofm"): Region(160 * kib, 96 * kib),
        ("wgt", "weights"): Region(0, 256 * kib),
        ("acc", "acc"): Region(0, 112 * kib),
        ("acc", "bias"): Region(112 * kib, 16 * kib),
    }


def test_weights_from_flash_have_the_end_of_the_sram() -> None:
    device = load_device("ethos-u55-like")
    sram = next(m for m in device.memory if m.id == "sram")
    assert staged_from(sram, device) == sram.bytes * 7 // 8
    assert {role for memory, role in regions(device) if memory == "sram"} == {"weights", "bias", "scales"}
