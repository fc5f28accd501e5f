"""Channels first, channels last, samples last: read as they are, or asked for, and never guessed."""

from itertools import permutations

import numpy as np
import pytest

from quadnorm.problems.files import read_fields
from tests.problems.files.written import FORMATS, write

RNG = np.random.default_rng(1)


@pytest.mark.parametrize("kind", FORMATS)
def test_channels_last_is_seen_where_the_file_shows_it(tmp_path, kind):
    a, u = RNG.normal(size=(5, 8, 8, 3)), RNG.normal(size=(5, 8, 8))
    r = (np.arange(8) + 0.5) / 8
    for more in ({"u": u}, {"u": u[..., None]}, {"x": r, "y": r}):
        data = read_fields(write(tmp_path, kind, a=a, **more), placement="cell")
        assert data["a"].axes == "nxyc"
        assert data.resolution == (8, 8)
        assert data.channels("a") == 3
        np.testing.assert_array_equal(data.tensor("a", dtype=None), a.transpose(0, 3, 1, 2))


@pytest.mark.parametrize("shape", [(5, 64, 64, 3), (5, 64, 64, 1), (5, 16, 16, 20), (5, 16, 16, 16), (5, 20, 16, 16)])
def test_where_both_readings_fit_the_caller_is_asked(tmp_path, shape):
    """Where it is not natural: as many channels as nodes, or a grid that is square only with channels last."""
    path = write(tmp_path, "npz", a=np.zeros(shape), u=np.zeros(shape))
    with pytest.raises(ValueError, match=r"\(sample, channel, x, y\) or as \(sample, x, y, channel\); say .*channels="):
        read_fields(path, placement="cell")
    assert read_fields(path, placement="cell", channels="first").resolution == shape[2:]
    assert read_fields(path, placement="cell", channels="last").resolution == shape[1:3]
    assert read_fields(path, placement="cell", axes="nxyc").resolution == shape[1:3]


@pytest.mark.parametrize("shape", [(5, 1, 8, 8), (5, 3, 8, 8), (5, 2, 8, 6), (5, 7, 8, 8), (9, 7, 8, 8)])
def test_channels_first_is_the_default(tmp_path, shape):
    data = read_fields(write(tmp_path, "npz", a=np.zeros(shape), u=np.zeros(shape)), placement="cell")
    assert (data["a"].axes, data.resolution) == ("ncxy", shape[2:])


def test_one_and_three_dimensions(tmp_path):
    path = write(tmp_path, "npz", a=np.zeros((5, 64, 2)), u=np.zeros((5, 64)))
    assert read_fields(path, dim=1, placement="cell").channels("a") == 2
    path = write(tmp_path, "npz", a=np.zeros((5, 6, 7, 8, 2)), u=np.zeros((5, 6, 7, 8)))
    assert read_fields(path, dim=3, placement="cell")["a"].axes == "nxyzc"
    path = write(tmp_path, "npz", a=np.zeros((5, 8, 8, 8)), u=np.zeros((5, 8, 8, 8)))
    with pytest.raises(ValueError, match=r"axes=3 if it has 3 spatial axes"):
        read_fields(path, placement="cell")


@pytest.mark.parametrize("kind", FORMATS)
def test_samples_may_come_last(tmp_path, kind):
    a = RNG.normal(size=(8, 8, 5))
    path = write(tmp_path, kind, a=a, u=2 * a)
    with pytest.raises(
        ValueError, match=r"\(sample, x, y\) or as \(x, y, sample\); say which with axes=nxy or axes=xyn"
    ):
        read_fields(path, placement="cell")
    data = read_fields(path, placement="cell", axes="xyn")
    assert len(data) == 5
    np.testing.assert_array_equal(data["a"].read([4, 1, 4]), a.transpose(2, 0, 1)[[4, 1, 4]])
    np.testing.assert_array_equal(data.tensor("a", dtype=None)[:, 0], a.transpose(2, 0, 1))
    assert len(read_fields(path, placement="cell", axes="nxy")) == 8


@pytest.mark.parametrize("kind", FORMATS)
def test_every_order_of_the_axes(tmp_path, kind):
    """Stored in each of 24 orders and read back by its letters, some samples and all: the same numbers."""
    a = RNG.normal(size=(5, 2, 3, 4))
    orders = ["".join(order) for order in permutations("ncxy")]
    stored = {order: a.transpose([list("ncxy").index(letter) for letter in order]) for order in orders}
    data = read_fields(write(tmp_path, kind, **stored), placement="cell", axes={order: order for order in orders})
    for order in orders:
        np.testing.assert_array_equal(data.tensor(order, dtype=None), a)
        np.testing.assert_array_equal(data.tensor(order, [3, 1], dtype=None), a[[3, 1]])


def test_one_sample_without_a_sample_axis(tmp_path):
    path = write(tmp_path, "npz", a=np.zeros((8, 8)), u=np.ones((8, 8)))
    with pytest.raises(ValueError, match=r"no fields found: .* got a \(8, 8\), u \(8, 8\).*axes=xy for one sample"):
        read_fields(path, placement="cell")
    data = read_fields(path, placement="cell", axes="xy")
    assert len(data) == 1
    assert tuple(data.tensor("u").shape) == (1, 1, 8, 8)


def test_text_and_labels_are_no_fields(tmp_path):
    path = write(tmp_path, "npz", u=np.zeros((5, 8, 8)), names=np.full((5, 8, 8), "a"), label=np.arange(5))
    assert list(read_fields(path, placement="cell").fields) == ["u"]


def test_wrong_words(tmp_path):
    path = write(tmp_path, "npz", u=np.zeros((5, 8, 8)))
    with pytest.raises(ValueError, match="unknown place of the channels 'lst'; did you mean 'last'"):
        read_fields(path, placement="cell", channels="lst")
    np.save(tmp_path / "a.npy", np.zeros((5, 8, 8)))
    with pytest.raises(ValueError, match=r"ignore_coordinates=True cannot be used here"):
        read_fields(tmp_path / "a.npy", placement="cell", ignore_coordinates=True)
    for domain in ([0], [1, 0], ["a", "b"], [[0, 1]], 3, [0, np.inf]):
        with pytest.raises(ValueError, match=r"domain must be \[lo, hi\] with lo < hi"):
            read_fields(path, placement="cell", domain=domain)


def test_the_digits_of_the_file_are_kept(tmp_path):
    for dtype, kept in [(np.float64, "float64"), (np.int32, "float64"), (np.float32, "float32"), (np.int16, "float32")]:
        path = write(tmp_path, "npz", u=np.ones((2, 4, 4), dtype))
        data = read_fields(path, placement="cell")
        assert str(data.tensor("u", dtype=None).dtype) == f"torch.{kept}"
        assert str(data.tensor("u").dtype) == "torch.float32"
