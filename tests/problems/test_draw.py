"""Pictures of samples."""

import struct
import sys

import numpy as np
import pytest

from quadnorm.problems import problem
from quadnorm.problems.draw import draw, figure


@pytest.mark.parametrize("name", ["darcy", "helmholtz"])
def test_png_is_written(name, tmp_path):
    p = problem(name, **({"fine": 33} if name == "darcy" else {}))
    path = draw(p, tmp_path / "new" / "samples.png", indices=[2, 5], resolution=21, seed=1)
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    assert width > 300
    assert height > 300


def test_pixels_are_centred_on_the_nodes_and_x_points_right():
    picture = figure(problem("poisson"), [0], resolution=(11, 21))
    axis = picture.axes[0]
    image = axis.get_images()[0]
    assert image.get_extent() == pytest.approx([-0.05, 1.05, -0.025, 1.025])
    x, _ = problem("poisson").sample([0], (11, 21))
    assert image.get_array().shape == (21, 11)
    assert image.get_array()[3, 5] == x[0, 0, 5, 3]
    assert "sample 0" in axis.get_title()


def test_the_earth_is_drawn_with_north_up(tmp_path):
    """Stored from north to south and from the date line on: longitude to the right, latitude upwards, in degrees."""
    u = np.arange(3.0 * 19 * 36).reshape(3, 19, 36)
    np.savez(tmp_path / "a.npz", a=u, u=-u, lat=np.linspace(90, -90, 19), lon=-180 + 10.0 * np.arange(36))
    axis = figure(problem("files", train=str(tmp_path / "a.npz")), [0], (19, 36)).axes[0]
    image = axis.get_images()[0]
    assert image.get_extent() == pytest.approx([-185, 175, -95, 95])
    assert image.get_array().shape == (19, 36)
    assert image.get_array()[-1, 2] == u[0, 0, 2]  # the last row is the highest
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("longitude", "latitude")


def test_what_is_the_same_is_drawn_once_and_steps_of_one_field_are_two_panels(tmp_path):
    u = np.random.default_rng(0).normal(size=(3, 4, 8, 8))
    np.savez(tmp_path / "a.npz", u=u)
    same = {"train": str(tmp_path / "a.npz"), "placement": "cell", "input": "u", "output": "u", "axes": "ntxy"}
    once = figure(problem("files", **same, input_time=1, output_time=1), [0], 8)
    assert [axis.get_title() for axis in once.axes if axis.get_title()] == ["u, sample 0"]
    twice = figure(problem("files", **same, input_time=0, output_time=3), [0], 8)
    drawn = [axis.get_images()[0].get_array() for axis in twice.axes if axis.get_title()]
    np.testing.assert_allclose(drawn, [u[0, 0].T, u[0, 3].T], rtol=1e-6)


def test_names_of_fields_are_no_formulas(tmp_path):
    """A field may be called anything; matplotlib cannot read $^$."""
    np.savez(tmp_path / "d.npz", **{"$^$": np.ones((2, 8, 8)), "\x1b[31m$": np.ones((2, 8, 8))})
    data = {"input": "$^$", "output": "\x1b[31m$", "placement": "cell"}
    p = problem("files", train=str(tmp_path / "d.npz"), **data)
    assert draw(p, tmp_path / "p.png", 1, 8).stat().st_size > 1000
    assert figure(p, 1, 8).axes[1].get_title() == r"\x1b[31m\$"


def test_missing_matplotlib_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install 'quadnorm\[bench\]'"):
        figure(problem("poisson"), 1)
