"""The cost of a training step is measured for every operator whose cost is estimated."""

from quadnorm.lab.bench.studies import installed, steps
from quadnorm.lab.studies.estimate import STEP


def test_every_operator_of_the_estimates_is_measured():
    rows = steps(repeats=1, grids=(32,))
    assert [r["name"] for r in rows] == [f"{name}, one step" for name in STEP if installed(name)]
    assert {"fno", "galerkin", "transolver", "resnet"} <= {name for name in STEP if installed(name)}
    assert all(r["seconds"] > 0 for r in rows)
