"""A tiny run whose numbers are written down: when they move, records of before and after must not be mixed."""

from statistics import fmean

import pytest

from quadnorm.lab.studies.evaluate import errors_of
from quadnorm.lab.studies.records import tasks_of
from quadnorm.lab.studies.study import TRANSFER
from quadnorm.training import load_model, read_config, train
from quadnorm.training.versions import NUMERICS
from tests.lab.studies.tiny_study import tiny_study

# Mean relative errors by norm, way and grid, written down at this value of NUMERICS.
GOLDEN_NUMERICS = 1
GOLDEN = {
    "layer, as-trained, 9": 0.9902504642,
    "layer, as-trained, 17": 0.9898680587,
    "layer, anchor-all, 9": 0.9902504642,
    "layer, anchor-all, 17": 0.9880193630,
    "layer, extended, 9": 0.9902504642,
    "layer, extended, 17": 0.9884810766,
    "layer, native, 9": 0.9902504642,
    "layer, native, 17": 0.9884349073,
    "quad:instance, as-trained, 9": 1.0171171940,
    "quad:instance, as-trained, 17": 0.9898526684,
    "quad:instance, anchor-all, 9": 1.0171171940,
    "quad:instance, anchor-all, 17": 0.9908039973,
    "quad:instance, extended, 9": 1.0171171940,
    "quad:instance, extended, 17": 0.9890830770,
    "quad:instance, native, 9": 1.0171171940,
    "quad:instance, native, 17": 0.9893993645,
}


def test_the_numbers_are_those_of_this_version(tmp_path):
    """In double precision, so that processors agree far below the tolerance."""
    measured = {}
    for task in tasks_of(tiny_study(seeds=(0,))).values():
        config = read_config({**task.config, "dtype": "float64"})
        train(config, tmp_path / task.key, progress=False)
        model, _ = load_model(tmp_path / task.key)
        for way in TRANSFER:
            for grid in task.grids:
                name = f"{config.operator.params['norm']}, {way.name}, {grid}"
                measured[name] = fmean(errors_of(model, config, way, grid)["plain"])
    moved = [name for name, value in measured.items() if value != pytest.approx(GOLDEN.get(name, 0.0), rel=1e-6)]
    assert not moved, f"numbers changed: bump NUMERICS (now {NUMERICS}) and write these down: {measured}"
    assert NUMERICS == GOLDEN_NUMERICS, "NUMERICS was bumped: write it down beside the numbers"
