"""A run that takes a fraction of a second, and ways to compare two of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from quadnorm.training.files.checkpoint import read_checkpoint

TINY: dict[str, Any] = {
    "problem": {"name": "poisson", "cache": False},
    "operator": {"name": "fno", "params": {"width": 4, "modes": 2, "layers": 1, "norm": "instance"}},
    "resolutions": {"train": [9]},
    "samples": {"train": 21, "val": 4, "test": 4},
    "batch": 8,
    "epochs": 3,
    "threads": 1,
}


def contents(path: Path) -> dict[str, Any]:
    """Everything in a checkpoint but clock times, bit for bit comparable."""
    tensors, info = read_checkpoint(path)
    state = {k: v for k, v in info["state"].items() if k != "seconds"}
    state["history"] = [
        {k: v for k, v in record.items() if k not in ("seconds", "system")} for record in state["history"]
    ]
    return {
        "state": state,
        "config": info["config"],
        "tensors": {k: (str(t.dtype), tuple(t.shape), t.numpy().tobytes()) for k, t in tensors.items()},
    }


def assert_same_run(one: Path, other: Path) -> None:
    """Weights, optimiser, random state and history of two runs agree to the last bit; so do the best weights."""
    for name in ("last.safetensors", "best.safetensors"):
        a, b = contents(one / name), contents(other / name)
        assert a["state"] == b["state"]
        assert a["tensors"].keys() == b["tensors"].keys()
        differ = [k for k in a["tensors"] if a["tensors"][k] != b["tensors"][k]]
        assert not differ, f"{name}: {differ}"
