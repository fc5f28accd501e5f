"""Numbers of every problem at its current version: whoever changes a law or a solver sees it, and raises ``version``.

Solvers are tested against independent solves and against themselves on other grids, and both agree whatever the law of
the data is: another spectrum would pass. ``python -m tests.problems.test_golden`` writes ``golden.json`` anew.
"""

import json
from pathlib import Path

import pytest

from quadnorm.problems import problem, problem_names

FILE = Path(__file__).with_name("golden.json")
STORED = {"darcy-official", "darcy-neuralop", "darcy-pdebench", "files"}  # others have made their numbers
SMALLER = {"burgers-2d": {"modes": 85, "horizon": 0.05}}  # takes seconds as it is


def numbers(name):
    """Of every channel of samples 0 and 5: mean, root mean square, and three samples that nothing makes equal."""
    p = problem(name, **SMALLER.get(name, {}))
    lines = []
    for field in p.sample([0, 5], 13 if p.placement != "points" else 9, seed=3):
        for channel in field.double().flatten(2).transpose(0, 1).flatten(0, 1):
            some = channel[[len(channel) // 7, len(channel) // 3, -len(channel) // 4]]
            lines.append([channel.mean().item(), channel.square().mean().sqrt().item(), *some.tolist()])
    return lines


@pytest.mark.parametrize("name", sorted(set(problem_names()) - STORED))
def test_the_numbers_of_a_version_do_not_change(name):
    golden = json.loads(FILE.read_text())[name]
    p = problem(name, **SMALLER.get(name, {}))
    assert p.version == golden["version"], "write the file anew: python -m tests.problems.test_golden"
    got = numbers(name)
    assert len(got) == len(golden["numbers"])
    for line, expected in zip(got, golden["numbers"], strict=True):
        size = expected[1] or 1.0  # root mean square: a sample near zero has the same rounding as the others
        assert line == pytest.approx(expected, rel=1e-5, abs=1e-5 * size), f"raise {name}'s version if this is meant"


def test_every_problem_has_its_numbers():
    assert set(json.loads(FILE.read_text())) == set(problem_names()) - STORED


if __name__ == "__main__":
    every = sorted(set(problem_names()) - STORED)
    stored = {
        name: {
            "version": problem(name).version,
            "numbers": [[float(f"{v:.7g}") for v in line] for line in numbers(name)],
        }
        for name in every
    }
    FILE.write_text(json.dumps(stored, indent=1) + "\n")
