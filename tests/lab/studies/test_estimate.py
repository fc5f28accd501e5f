"""What a study costs, before it is run."""

from dataclasses import replace
from itertools import pairwise

import pytest

from quadnorm.lab.studies import Budget, Study, estimate, study
from quadnorm.lab.studies.estimate import STEP, StepCost, step_seconds
from quadnorm.lab.studies.study import AS_TRAINED
from tests.lab.studies.tiny_study import tiny_study


def tiny(**changes) -> Study:
    """100 steps of an FNO at 32², 2 methods, 3 seeds."""
    s = tiny_study(evaluations=(AS_TRAINED,), seeds=(0, 1, 2))
    settings = {
        "train": (32,),
        "test": (32, 64),
        "budget": Budget(train=200, val=40, test=60, epochs=10, lr=5e-4),
        "operator_params": {"width": 32, "modes": 12, "layers": 4},
        **changes,
    }
    return replace(s, variants=(replace(s.variants[0], **settings),))


def test_estimate_by_hand(monkeypatch):
    """6 runs: 100 steps of 0.3 s, 10 validations of 2 batches of 0.1 s, 3 test batches of 0.1 + 1/3 s; 300 samples."""
    monkeypatch.setitem(STEP, "fno", StepCost(0.3, 1.0, width=32, layers=4))
    e = estimate(tiny())
    assert e.runs == 6
    assert e.training == pytest.approx(6 * 30)
    assert e.validation == pytest.approx(6 * 2)
    assert e.testing == pytest.approx(6 * 1.3)
    assert e.data == pytest.approx(1.5)
    assert e.minutes(workers=1) == pytest.approx((180 + 12 + 7.8 + 1.5) / 60)
    assert e.minutes(workers=2) == pytest.approx((180 + 12 + 7.8 + 1.5) / 102)


def test_steps_of_several_grids_share_an_epoch():
    one, two = estimate(tiny()), estimate(tiny(train=(32, 64)))
    cost = STEP["fno"]
    assert two.training == pytest.approx(one.training * (cost.at_32 + cost.at_64) / 2 / cost.at_32)


def test_step_cost_meets_the_measured_grids_and_grows():
    for operator, cost in STEP.items():
        assert step_seconds(operator, 32, cost.width, cost.layers) == pytest.approx(cost.at_32)
        assert step_seconds(operator, 64, cost.width, cost.layers) == pytest.approx(cost.at_64)
        sizes = [step_seconds(operator, n, cost.width, cost.layers) for n in (2, 4, 8, 16, 32, 64, 128, 256)]
        assert all(0 < a < b for a, b in pairwise(sizes))
        assert step_seconds(operator, 32, cost.width, cost.layers, batch=10) == pytest.approx(cost.at_32 / 2)
        assert step_seconds(operator, 32, cost.width * 2, cost.layers) == pytest.approx(cost.at_32 * 4)


def test_a_budget_of_nothing_is_refused():
    with pytest.raises(ValueError, match="epochs of 1 or more, got 0"):
        Budget(train=10, val=1, test=1, epochs=0, lr=1e-3)
    with pytest.raises(ValueError, match="at least one variant"):
        Study(name="empty", title="", theme="", variants=(), seeds=(0,))
    with pytest.raises(ValueError, match="did you mean 'ci95'"):
        replace(tiny(), statistic="ci")


def test_a_problem_without_a_measured_cost_has_an_estimate():
    s = study("demo").at("smoke")
    own = replace(s, variants=tuple(replace(v, problem="one-of-yours") for v in s.variants))
    assert estimate(own).data > 0
