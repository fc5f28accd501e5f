"""What coordinates say about the placement of nodes; every row of coordinates is built here from its formula."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quadnorm.problems.files import read_fields

N = 12
ROWS = {
    "endpoint": np.arange(N) / (N - 1),
    "cell": (np.arange(N) + 0.5) / N,
    "periodic": np.arange(N) / N,
    "left": np.arange(N) / N,
    "interior": (np.arange(N) + 1) / (N + 1),
}


def save(path, x=None, y=None, **more):
    n, m = (len(x), len(y)) if x is not None else (N, N)
    extra = {} if x is None else {"x": x, "y": y}
    np.savez(path, u=np.zeros((3, n, m)), **extra, **more)
    return path


@pytest.mark.parametrize("kind", ["endpoint", "cell", "interior"])
@pytest.mark.parametrize("ends", [(0.0, 1.0), (-1.0, 1.0), (-2.5, 2.5), (0.0, 2 * np.pi)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_coordinates_alone_decide_where_one_reading_has_round_ends(tmp_path, kind, ends, dtype):
    x = (ends[0] + (ends[1] - ends[0]) * ROWS[kind]).astype(dtype)
    data = read_fields(save(tmp_path / "a.npz", x, x))
    assert data.placement == (kind, kind)
    np.testing.assert_allclose(data.domain, [ends, ends], atol=1e-12)
    np.testing.assert_array_equal(data.coordinates[0], x)


def test_periodic_and_left_have_the_same_nodes_so_the_caller_is_asked(tmp_path):
    path = save(tmp_path / "a.npz", ROWS["left"], ROWS["left"])
    with pytest.raises(ValueError, match=r"a\.npz.*placement='periodic' or placement='left'"):
        read_fields(path)
    assert read_fields(path, placement="left").placement == ("left", "left")
    assert read_fields(path, placement="periodic").domain == ((0.0, 1.0), (0.0, 1.0))


def test_no_coordinates_no_placement_is_an_error_that_lists_the_words(tmp_path):
    with pytest.raises(ValueError, match=r"placement='endpoint'.*'cell'.*'periodic'.*'left'"):
        read_fields(save(tmp_path / "a.npz"))
    data = read_fields(save(tmp_path / "a.npz"), placement=("endpoint", "cell"), domain=((0, 2), (0, 1)))
    np.testing.assert_allclose(data.coordinates[0], 2 * ROWS["endpoint"])
    np.testing.assert_allclose(data.coordinates[1], ROWS["cell"])


@pytest.mark.parametrize(("stored", "claimed"), [("cell", "endpoint"), ("endpoint", "cell"), ("endpoint", "periodic")])
def test_a_contradiction_is_refused_and_can_be_overruled(tmp_path, stored, claimed):
    path = save(tmp_path / "a.npz", ROWS[stored], ROWS[stored])
    with pytest.raises(ValueError, match=f"you said.*{claimed}.*ignore_coordinates=True"):
        read_fields(path, placement=claimed)
    data = read_fields(path, placement=claimed, ignore_coordinates=True)
    np.testing.assert_allclose(data.coordinates[0], ROWS[claimed])


def test_a_domain_settles_what_round_numbers_cannot(tmp_path):
    x = np.arange(N, dtype=float)  # 0 … 11: both ends of [0, 11], or cells of [−½, 11½], or periodic in 12
    path = save(tmp_path / "a.npz", x, x)
    with pytest.raises(ValueError, match="more than one way"):
        read_fields(path)
    assert read_fields(path, domain=(0, 11)).placement[0] == "endpoint"
    assert read_fields(path, domain=(-0.5, 11.5)).placement[0] == "cell"
    with pytest.raises(ValueError, match="more than one way"):
        read_fields(path, domain=(0, 12))
    with pytest.raises(ValueError, match="no such nodes"):
        read_fields(path, domain=(0, 13), placement="cell")


def test_periodic_nodes_may_start_anywhere(tmp_path):
    data = read_fields(save(tmp_path / "a.npz", ROWS["cell"], ROWS["cell"]), placement="periodic")
    assert data.placement == ("periodic", "periodic")
    assert data.domain[0] == (0.0, 1.0)


def test_nonuniform_axes_keep_their_coordinates(tmp_path):
    x = (1 - np.cos(np.pi * np.arange(N) / (N - 1))) / 2
    data = read_fields(save(tmp_path / "a.npz", x, ROWS["cell"]))
    assert data.placement == ("coordinates", "cell")
    np.testing.assert_array_equal(data.coordinates[0], x)
    with pytest.raises(ValueError, match="you said"):
        read_fields(save(tmp_path / "a.npz", x, x), placement="endpoint")


def test_odd_ends_take_the_callers_word(tmp_path):
    x = 0.13 + 0.071 * np.arange(N)
    with pytest.raises(ValueError, match="pass placement="):
        read_fields(save(tmp_path / "a.npz", x, x))
    data = read_fields(save(tmp_path / "a.npz", x, x), placement="cell")
    np.testing.assert_allclose(data.domain[0], (0.13 - 0.0355, 0.13 + 0.071 * (N - 0.5)))


@pytest.mark.parametrize(
    "bad", [np.r_[ROWS["cell"][1::-1], ROWS["cell"][2:]], np.r_[ROWS["cell"][:-1], np.nan], ROWS["cell"][:-1]]
)
def test_bad_coordinates(tmp_path, bad):
    np.savez(tmp_path / "a.npz", u=np.zeros((3, N, N)), x=bad, y=ROWS["cell"])
    with pytest.raises(ValueError, match=r"a\.npz.*axis x"):
        read_fields(tmp_path / "a.npz")


def test_unknown_placement_suggests(tmp_path):
    with pytest.raises(ValueError, match="did you mean 'endpoint'"):
        read_fields(save(tmp_path / "a.npz"), placement="endpoints")
    with pytest.raises(ValueError, match="one for each of 2 axes"):
        read_fields(save(tmp_path / "a.npz"), placement=["cell"] * 3)
    with pytest.raises(ValueError, match="lo < hi"):
        read_fields(save(tmp_path / "a.npz"), placement="cell", domain=(1, 0))


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(3, 300),
    kind=st.sampled_from(["endpoint", "cell", "interior", "periodic"]),
    lo=st.floats(-50, 50),
    length=st.floats(0.1, 100),
)
def test_with_the_domain_every_placement_is_recognised(tmp_path_factory, n, kind, lo, length):
    j = np.arange(n)
    unit = {"endpoint": j / (n - 1), "cell": (j + 0.5) / n, "interior": (j + 1) / (n + 1), "periodic": j / n}[kind]
    x = lo + length * unit
    path = save(tmp_path_factory.mktemp("h") / "a.npz", x, x)
    data = read_fields(path, domain=(lo, lo + length), placement="periodic" if kind == "periodic" else None)
    assert data.placement == (kind, kind)


def test_complex_coordinates(tmp_path):
    with pytest.raises(ValueError, match="coordinates of axis x must be real"):
        read_fields(save(tmp_path / "a.npz", ROWS["cell"] + 0j, ROWS["cell"]))


def test_coordinates_may_decrease(tmp_path):
    """Latitudes from north to south: centres of cells of [-1, 1], and the same axis read from its other end."""
    down = -1 + 2 * ROWS["cell"][::-1]
    np.savez(tmp_path / "a.npz", u=np.zeros((3, N, N)), x=down, y=ROWS["endpoint"])
    data = read_fields(tmp_path / "a.npz")
    assert data.placement == ("cell", "endpoint")
    assert data.domain == ((-1.0, 1.0), (0.0, 1.0))
    np.testing.assert_array_equal(data.coordinates[0], down)
    np.savez(tmp_path / "a.npz", u=np.zeros((3, N, N)), x=1 - ROWS["left"], y=ROWS["endpoint"])
    with pytest.raises(ValueError, match="placement='periodic' or placement='left'"):
        read_fields(tmp_path / "a.npz")
    data = read_fields(tmp_path / "a.npz", placement=["left", "endpoint"], domain=[[0, 1], [0, 1]])
    assert data.domain == ((0.0, 1.0), (0.0, 1.0))


@pytest.mark.parametrize(
    "ends", [(0.0, 1e5), (0.0, 1e-6), (-90.0, 90.0), (0.0, 360.0), (-2.5e-3, 2.5e-3), (100.0, 250.0)]
)
@pytest.mark.parametrize("kind", ["endpoint", "cell"])
def test_ends_are_round_for_the_length_of_the_axis(tmp_path, kind, ends):
    """Metres of a region, micrometres, degrees: multiples of ½ are all or none of the candidates."""
    x = ends[0] + (ends[1] - ends[0]) * ROWS[kind]
    data = read_fields(save(tmp_path / "a.npz", x, x))
    assert data.placement == (kind, kind)
    np.testing.assert_allclose(data.domain, [ends, ends], rtol=1e-9)


def test_a_placement_that_is_given_goes_before_round_ends(tmp_path):
    x = 1e5 * ROWS["cell"]
    assert read_fields(save(tmp_path / "a.npz", x, x), placement="endpoint").placement == ("endpoint", "endpoint")


@pytest.mark.parametrize("stated", [3, "cels", ["cell"], ["cell", "cell", "cell"]])
def test_a_file_that_states_no_placement_there_is(tmp_path, stated):
    path = save(tmp_path / "a.npz", placement=np.array(stated))
    if stated == ["cell"]:  # one word in a list is one word
        assert read_fields(path).placement == ("cell", "cell")
        return
    with pytest.raises(ValueError, match=r"a\.npz: the file states the placement .*expected one of endpoint"):
        read_fields(path)


def test_coordinates_that_float32_rounds_are_still_even(tmp_path):
    """359.58, 359.5809, …: float32 knows such numbers to a thirtieth of their spacing, and the nodes are even."""
    x = (359.58 + 0.0009 * np.arange(100)).astype(np.float32)
    np.savez(tmp_path / "a.npz", u=np.zeros((3, 100)), x=x)
    assert np.ptp(np.diff(x.astype(float))) > 0.02 * 0.0009
    assert read_fields(tmp_path / "a.npz", dim=1, placement="cell").placement == ("cell",)
    np.savez(tmp_path / "a.npz", u=np.zeros((3, 100)), x=0.0009 * np.arange(100) ** 1.02)
    assert read_fields(tmp_path / "a.npz", dim=1).placement == ("coordinates",)
