"""Rollouts of a study: the target after so many steps, and where each way leaves the training grid."""

import torch
from torch import nn
from torch.nn import functional as F

import quadnorm as qn
from quadnorm.lab.studies import study
from quadnorm.lab.studies.evaluate import errors_of, predictor
from quadnorm.lab.studies.study import AS_TRAINED, NATIVE, TRANSFERRED, Way
from quadnorm.operators import FNO
from quadnorm.training import TrainConfig
from quadnorm.training.data import problem_of

STEPS = {"start": 0.0, "horizon": 0.125, "starts": 2}
CONFIG = TrainConfig(
    problem={"name": "navier-stokes-steps", "params": STEPS, "cache": False},
    operator={"name": "fno", "params": {"width": 8, "modes": 4, "layers": 1}},
    resolutions={"train": [8], "test": [8, 16]},
    samples={"train": 2, "val": 2, "test": 2},
    batch=8,
)


class Halves(nn.Module):
    """x/2, and the grids on which it was asked."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, x):
        self.seen.append(x.shape[-1])
        return x / 2


def test_the_target_is_where_so_many_steps_lead():
    """A model that knows the flow three steps on has no error there; with one step's it has."""
    p, test = problem_of(CONFIG), CONFIG.samples.indices("test")
    truth, one = p.after(3).sample(test, 16)[1], p.sample(test, 16)[1]

    class Knows(nn.Module):
        def forward(self, x):
            return truth.to(x.dtype)

    way = AS_TRAINED.rolled(3)
    assert (way.name, way.label) == ("as-trained-3-steps", "as trained, 3 steps")
    assert max(errors_of(Knows(), CONFIG, way, 16)["plain"]) < 1e-6
    expected = (truth - one).flatten(1).norm(dim=1) / one.flatten(1).norm(dim=1)
    found = errors_of(Knows(), CONFIG, AS_TRAINED, 16)["plain"]
    torch.testing.assert_close(torch.tensor(found), expected.to(torch.float32), rtol=1e-4, atol=0)
    assert min(found) > 1e-3


def test_each_way_runs_as_many_steps_where_it_should():
    p, x = problem_of(CONFIG), torch.randn(2, 1, 16, 16)
    coarse = x[..., ::2, ::2]
    for way, grid, expected in (
        (AS_TRAINED, 16, x),
        (NATIVE, 8, qn.adapt.carry(coarse, (16, 16), "periodic")),
        (Way("b", "b", "interpolate", "bicubic"), 8, F.interpolate(coarse, (16, 16), mode="bicubic")),
    ):
        model = Halves()
        y = predictor(model, CONFIG, way.rolled(3), p, (16, 16))(x)
        assert model.seen == [grid] * 3
        torch.testing.assert_close(y, expected / 8)


def test_a_rollout_of_a_transferred_model_estimates_once():
    """The state of every step is on the same grid: shares stay those of the first step."""
    torch.manual_seed(0)
    model = FNO(width=8, modes=3, layers=1, placement="periodic").eval()
    x, y = (torch.randn(6, 1, 8, 8) for _ in range(2))
    moved = qn.transfer(model, 8, "periodic", data=(x, y))
    state = F.interpolate(x, (16, 16), mode="bicubic")
    with torch.no_grad():
        state = moved(state)
        first = moved.report.grids[16, 16]
        for _ in range(3):
            state = moved(state)
    assert moved.report.grids[16, 16] is first
    assert list(moved.report.grids) == [(16, 16)]


def test_the_study_has_every_way_and_length():
    s = study("rollout").at("desk")
    assert {way.steps for way in s.evaluations} == {1, 20, 50}
    labels = [way.label.removesuffix(", 20 steps") for way in s.evaluations if way.steps == 20]
    assert labels[:5] == ["as trained", "anchored", "extended", "run at the training grid", "transferred"]
    assert TRANSFERRED in s.evaluations
    (v,) = s.variants
    assert (v.train, v.test) == ((32,), (16, 24, 32, 64, 128))
