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
