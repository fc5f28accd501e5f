"""The benchmark for devices runs on the one that is always here; the prediction is arithmetic on counted traffic."""

import pytest

from quadnorm.lab.bench import norms_device
from quadnorm.lab.bench.norms_device import DEVICES, LAUNCH, REACHED, roofline


def test_rows_on_the_cpu():
    rows = norms_device.run("cpu", scale=0.05, repeats=1, compiled=False)
    assert {r["name"] for r in rows} == {"forward on cpu", "forward+backward on cpu"}
    assert {r["peer"] for r in rows} == {"nn.GroupNorm"}
    assert len(rows) == 16
    assert all(r["ratio"] > 0 for r in rows)


def test_compiled_code_is_a_peer(monkeypatch):
    monkeypatch.setattr(norms_device, "SHAPES", norms_device.SHAPES[:1])
    monkeypatch.setattr(norms_device.torch, "compile", lambda layer, **options: layer)
    rows = norms_device.run("cpu", scale=0.05, repeats=1)
    assert {r["peer"] for r in rows} == {"nn.GroupNorm", "compiled QuadNorm"}


def test_a_device_that_is_not_here():
    with pytest.raises(ValueError, match=r"cannot be used here"):
        norms_device.run("cuda:93")
    with pytest.raises(ValueError, match="scale"):
        norms_device.run("cpu", scale=2)


def test_prediction_is_bytes_over_bandwidth():
    """(2, 4, 64²) instance: 4096 numbers per row are on chip, 2 sweeps forward, 3 backward."""
    bytes_ = 2 * 4 * 64 * 64 * 4
    for device in DEVICES:
        forward, backward = roofline((2, 4, 64, 64), 4, device)
        assert forward - LAUNCH == pytest.approx(2 * bytes_ / device.bandwidth / REACHED)
        assert backward - LAUNCH == pytest.approx(3 * bytes_ / device.bandwidth / REACHED)
        forward, backward = roofline((2, 4, 64, 64), 1, device)  # 16384 numbers are not
        assert forward - 3 * LAUNCH == pytest.approx(3 * bytes_ / device.bandwidth / REACHED)
        assert backward - 3 * LAUNCH == pytest.approx(5 * bytes_ / device.bandwidth / REACHED)
