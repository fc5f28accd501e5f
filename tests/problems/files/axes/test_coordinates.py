"""Coordinates decide where nodes lie, in every format and under every usual name; they are built here by formula."""

import numpy as np
import pytest

from quadnorm.problems.files import read_fields
from tests.problems.files.written import FORMATS, write

N, M = 8, 6
CELL = (np.arange(N) + 0.5) / N
END = np.linspace(0, 2, M)
U = np.random.default_rng(0).normal(size=(3, N, M))
NAMES = [("x", "y"), ("x-coordinate", "y-coordinate"), ("x_coord", "y_coord"), ("grid_x", "grid_y")]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("names", NAMES[:1] + NAMES[2:])
def test_one_array_for_each_axis(tmp_path, kind, names):
    data = read_fields(write(tmp_path, kind, u=U, **dict(zip(names, (CELL, END), strict=True))))
    assert data.placement == ("cell", "endpoint")
    assert data.domain == ((0.0, 1.0), (0.0, 2.0))
    assert list(data.fields) == ["u"]
    assert data.evidence == "by the coordinates in the file"
    np.testing.assert_array_equal(data.coordinates[1], END)


@pytest.mark.parametrize("kind", ["npz", "pt", "h5"])
def test_names_with_a_hyphen(tmp_path, kind):
    """As PDEBench has them; MATLAB has no such names."""
    data = read_fields(write(tmp_path, kind, u=U, **dict(zip(NAMES[1], (CELL, END), strict=True))))
    assert data.placement == ("cell", "endpoint")


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("first", [True, False])
def test_one_array_for_all_axes(tmp_path, kind, first):
    grid = np.stack(np.meshgrid(CELL, END, indexing="ij"), 0 if first else -1)
    for name in ("grid", "coords"):
        data = read_fields(write(tmp_path, kind, u=U, **{name: grid}))
        assert data.placement == ("cell", "endpoint")


@pytest.mark.parametrize("kind", FORMATS)
def test_a_meshgrid_shows_the_order_of_the_axes(tmp_path, kind):
    """numpy.meshgrid's default: fields are (sample, y, x). What is read is (sample, x, y)."""
    X, Y = np.meshgrid(CELL, END)
    data = read_fields(write(tmp_path, kind, u=U.transpose(0, 2, 1), x=X, y=Y))
    assert data.placement == ("cell", "endpoint")
    assert data["u"].axes == "nyx"
    np.testing.assert_array_equal(data.tensor("u", dtype=None)[:, 0], U)


def test_lengths_show_the_order_of_the_axes(tmp_path):
    data = read_fields(write(tmp_path, "npz", u=U.transpose(0, 2, 1), x=CELL, y=END))
    assert data["u"].axes == "nyx"
    np.testing.assert_array_equal(data.tensor("u", dtype=None)[:, 0], U)


@pytest.mark.parametrize("kind", FORMATS)
def test_one_dimension(tmp_path, kind):
    for name in ("x", "grid"):
        data = read_fields(write(tmp_path, kind, a=U[:, :, 0], u=U[:, :, 1], **{name: CELL}), dim=1)
        assert data.placement == ("cell",)
        assert list(data.fields) == ["a", "u"]


@pytest.mark.parametrize("kind", ["mat5", "mat73"])
def test_one_sample_called_x_is_a_field(tmp_path, kind):
    """(1, n) is a vector in MATLAB; where every array is one, x and y are input and output."""
    data = read_fields(write(tmp_path, kind, x=U[:1, :, 0], y=U[:1, :, 1]), dim=1, placement="cell")
    assert list(data.fields) == ["x", "y"]
    assert tuple(data.tensor("x").shape) == (1, 1, N)


@pytest.mark.parametrize("kind", ["mat5", "mat73"])
def test_vectors_and_numbers_beside_the_fields_of_one_dimension(tmp_path, kind):
    path = write(tmp_path, kind, a=U[:, :, 0], u=U[:, :, 1], x=CELL, t=np.arange(5.0), nu=np.array(0.1))
    assert list(read_fields(path, dim=1).fields) == ["a", "u"]


def test_coordinates_of_a_mat_file_go_before_what_its_names_suggest(tmp_path):
    """coeff and sol lie at cell centres in the Fourier neural operator's files; these say otherwise."""
    path = write(tmp_path, "mat5", coeff=U, sol=U, x=np.linspace(0, 1, N), y=END)
    assert read_fields(path).placement == ("endpoint", "endpoint")


@pytest.mark.parametrize("kind", FORMATS)
def test_wrong_coordinates_can_be_ignored(tmp_path, kind):
    path = write(tmp_path, kind, u=U, x=CELL, y=END)
    with pytest.raises(ValueError, match=r"you said that axis x is 'endpoint'.*ignore_coordinates"):
        read_fields(path, placement="endpoint")
    assert read_fields(path, placement="endpoint", ignore_coordinates=True).coordinates[0][-1] == 1
    with pytest.raises(ValueError, match="axis x has 8 nodes, its coordinates have shape"):
        read_fields(write(tmp_path, kind, u=U, x=CELL[:-1], y=END))


def test_curved_grids_are_refused(tmp_path):
    X, Y = np.meshgrid(CELL, END, indexing="ij")
    path = write(tmp_path, "npz", u=U, x=X + 0.1 * Y, y=Y)
    with pytest.raises(ValueError, match=r"'x', 'y' are not those of a grid with straight axes.*ignore_coordinates"):
        read_fields(path)
    assert read_fields(path, placement="cell", ignore_coordinates=True).placement == ("cell", "cell")
