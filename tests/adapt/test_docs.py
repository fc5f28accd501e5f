"""The page's code runs, once its names are public."""

import importlib.util
import math
import re

import pytest
import torch

from quadnorm.problems import problem
from tests import ROOT


def test_the_page_runs(capsys):
    page = (ROOT / "docs" / "howto" / "existing-models.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.S)
    assert len(blocks) == 6
    torch.manual_seed(0)
    names = {}
    for block in blocks:
        exec(compile(block, "existing-models.md", "exec"), names)
    assert "recommended: transfer" in capsys.readouterr().out


def example(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_answers_of_the_comparison_are_right():
    """Each problem's answer against differences and sums on a fine grid; coarse samples are those of the fine ones."""
    case, n = example("native_or_anchored"), 2001
    h, r = 1 / (n - 1), torch.linspace(0, 1, n, dtype=torch.float64)

    def draw(make, n, fine=False):
        x, y = make(torch.Generator().manual_seed(5), 3, n, fine)
        return x[:, 0], y[:, 0]

    for make in (case.smooth, case.steps):
        f, u = draw(make, n)
        gap = (-(u[:, 2:] - 2 * u[:, 1:-1] + u[:, :-2]) / h**2 / 10 - f[:, 1:-1]).abs()
        assert gap.median() < 1e-4  # not at the jump
        assert u[:, [0, -1]].abs().max() < 1e-12
    f, y = draw(case.texture, n, fine=True)
    assert torch.allclose(y, f * torch.exp(torch.trapezoid(f, r)[:, None]), atol=1e-4)
    f, y = draw(case.kinks, n)
    factor = torch.trapezoid(f.square(), r)
    assert torch.allclose(y.amax(1) / factor, ((f.amax(1) - f.amin(1)) / 2), rtol=1e-3)
    for make in (case.smooth, case.steps, case.texture, case.kinks):
        assert torch.allclose(draw(make, 33)[1], draw(make, 257)[1][:, ::8], atol=1e-12)


@pytest.mark.slow
def test_the_comparison_says_what_the_page_says():
    """The page's claims, with room for other machines' rounding: which way is better in which case."""
    errors = example("native_or_anchored").main(seeds=1)
    trained, anchored, native = (
        dict(zip(errors, column, strict=True)) for column in list(zip(*errors.values(), strict=True))[1:4]
    )
    smooth, coarse, fine, jumps, kinks, asked, points = errors
    assert native[smooth] < 1.1 * anchored[smooth] < trained[smooth]
    assert native[coarse] < anchored[coarse] < trained[coarse]
    assert anchored[fine] < native[fine] / 3
    assert anchored[jumps] < native[jumps]
    assert anchored[kinks] < native[kinks] / 1.5
    assert errors[asked][4] < errors[asked][3] / 1.5  # extended, and interpolated
    assert anchored[points] < min(native[points], trained[points])


def test_the_coordinates_leak_and_not_the_norm():
    """The puzzle's claim with random weights, at 32² and 64², on a smooth periodic field."""
    fno = example("crop_fno")

    def field(n):
        r = 2 * math.pi * torch.arange(n) / n
        return (torch.sin(r)[:, None] * torch.cos(2 * r + 1))[None, None]

    leaks = {}
    for coordinates in ("linspace", "none", "closed"):
        torch.manual_seed(0)
        model = fno.Net(True, coordinates, width=6, modes=4)
        with torch.no_grad():
            native = model(field(32))
            leaks[coordinates] = (model(field(64))[..., ::2, ::2] - native).norm() / native.norm()
    assert leaks["linspace"] > 100 * max(leaks["none"], leaks["closed"]), leaks


def test_without_its_coordinates_the_network_does_not_know_where_it_is():
    """A shifted input gives the shifted output, once the coordinates say the same everywhere."""
    fno = example("crop_fno")
    torch.manual_seed(0)
    x = torch.randn(1, 1, 32, 32)
    for coordinates in ("linspace", "closed"):
        model = fno.Net(True, coordinates, width=6, modes=4).eval()
        gaps = []
        for model.blind in (False, True):
            with torch.no_grad():
                gaps.append((model(x.roll(5, -1)) - model(x).roll(5, -1)).abs().max())
        assert gaps[1] < 1e-5 < 1e-3 < gaps[0], (coordinates, gaps)


def test_the_flows_of_the_puzzle_are_those_of_the_library():
    """At the same times, from the same fields; the puzzle leaves out waves that are gone after one unit of time."""
    flows = example("crop_flows")
    flow = flows.Flow(4e-3, first=1, steps=1, samples=0, updates=0)
    w = flows.on_grid(flows.trajectories(flow), 32)
    x, y = problem("navier-stokes", viscosity=4e-3, start=1, horizon=1).sample(range(flows.TESTS), 32)
    for k, truth in enumerate((x, y)):
        assert (w[:, k] - truth[:, 0]).norm() < 1e-4 * truth.norm()


def test_the_training_measure_of_a_cloud(monkeypatch):
    """Sums over new points, weighed, are sums over the training points where fields are linear."""
    monkeypatch.syspath_prepend(ROOT / "examples")
    points = example("zoo_points")
    home, new = torch.rand(2, 60, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    new = torch.cat([new, torch.cartesian_prod(*[torch.arange(2.0, dtype=torch.float64)] * 2)])
    weights = points.training_measure(home, new).double()
    assert torch.allclose(weights @ new, home.sum(0), rtol=1e-5)
    assert weights.sum() == pytest.approx(60, rel=1e-5)


def test_the_weights_of_a_sum_over_neighbours(monkeypatch):
    """They add up to the training grid's nodes, so that a sum over a finer grid has the training grid's size."""
    monkeypatch.syspath_prepend(ROOT / "examples")
    fnogno = example("zoo_points")
    search = fnogno.TrainingWeights(lambda data, queries, radius: {"neighbors_index": torch.arange(len(data))})
    for n in (33, 65, 50):
        r = torch.linspace(0, 1, n)
        nodes = torch.cartesian_prod(r, r)
        weights = search(nodes, nodes[:1], 1.0)["weights"]
        assert weights.sum() == pytest.approx(33**2, rel=1e-5)
        assert weights @ nodes[:, 0] == pytest.approx(33**2 / 2, rel=1e-5)
        assert n != 33 or torch.allclose(weights, torch.ones(n * n))


def test_the_zoo_keeps_the_rows_of_models_that_are_not_installed(monkeypatch, tmp_path):
    """A page written from no measurement is the page; a measurement changes its own row and the counts."""
    monkeypatch.syspath_prepend(ROOT / "examples")
    zoo, page = example("zoo"), ROOT / "docs" / "zoo.md"
    text = page.read_text(encoding="utf-8")
    assert zoo.page({"the_well AFNO": {"missing": "ModuleNotFoundError"}}, page) == text
    name, values = "U-Net", {"as trained": 0.5, "extended": 0.6, "how": "shifted", "seconds": 2.0, "refused": {}}
    changed = zoo.page({name: values}, page).splitlines()
    pairs = list(zip(text.splitlines(), changed, strict=True))
    rows = [new for old, new in pairs if old.startswith(f"| {name} | 4.4e-01 | 4.4e-01")]
    assert rows == ["| U-Net | 5.0e-01 | refused | 6.0e-01 | shifted | 2.0 s |  |"]
    assert sum(old != new for old, new in pairs) == 2
    assert any("1 are refused; extended, 1 drift more" in line for line in changed)


@pytest.mark.slow
def test_the_example_runs(tmp_path, capsys):
    example("neuralop_anchor").main(tmp_path, steps=20)
    assert "recommended: " in capsys.readouterr().out
    assert (tmp_path / "neuralop_audit.html").exists()


def test_public_names_come_from_here():
    import quadnorm.adapt

    for name in ("anchor", "convert", "audit", "at_native", "extend", "register_anchor"):
        assert getattr(quadnorm, name) is getattr(quadnorm.adapt, name)


def test_the_tables_of_where_each_wins():
    """Means over seeds, ratios to the best of four, and the place in the page."""
    page = example("where_each_wins")
    ways = dict.fromkeys(page.WAYS, 4.0)
    results = {
        "fno-darcy-layer-33-s0-0a": {f"65|{way}": v for way, v in {**ways, "transferred": 2.0}.items()},
        "fno-darcy-layer-33-s1-0b": {f"65|{way}": v for way, v in {**ways, "extended": 2.0}.items()},
        "case|kinks|0": {way: v for way, v in ways.items() if way != "bicubic"},
    }
    rows = page.settings(results)
    assert [(name, len(seeds)) for name, seeds in rows.items()] == [("kinks", 1), ("fno-darcy-layer, 33² → 65²", 2)]
    assert (
        "| fno-darcy-layer, 33² → 65² | 2 | 4.00 | 4.00 | **3.00** | 4.00 | 4.00 | 4.00 | **3.00** | 1.000 |"
        in page.table(rows)
    )
    assert "| as trained | 1.155 | 1.33 | 2 |" in page.summary(rows)  # √(1 · 4/3)
    marked = "a <!-- x: written by examples/where_each_wins.py -->old<!-- end of x --> b"
    assert page.written(marked, "x", "new") == (
        "a <!-- x: written by examples/where_each_wins.py -->\nnew\n<!-- end of x --> b"
    )
    with pytest.raises(ValueError, match="no place for y"):
        page.written(marked, "y", "new")
