"""What can be said about one's own files, and that it reaches the samples: axes, placements, domain, missing values."""

import numpy as np
import pytest
import torch

from quadnorm.problems import problem
from quadnorm.problems.stored.describe import describe

RNG = np.random.default_rng(2)
X = RNG.normal(size=(6, 9, 8))


def save(path, **arrays):
    np.savez(path, **arrays)
    return str(path)


def test_one_placement_for_each_axis(tmp_path):
    path = save(tmp_path / "a.npz", x=X, y=2 * X)
    p = problem("files", train=path, placement=["endpoint", "periodic"])
    assert p.placement == ("endpoint", "periodic")
    np.testing.assert_allclose(p.nodes((9, 8))[0], np.arange(9) / 8)
    np.testing.assert_allclose(p.nodes((9, 8))[1], np.arange(8) / 8)
    np.testing.assert_array_equal(p.sample([1], (5, 4))[0][0, 0], X[1, ::2, ::2].astype(np.float32))
    assert "axis 0: endpoint, j/(n−1)" in p.card()
    assert problem("files", train=path, placement=["cell", "cell"]).placement == "cell"


def test_files_and_comparisons_may_state_one_for_each_axis(tmp_path):
    nodes = {"x": np.linspace(0, 1, 9), "y": (np.arange(8) + 0.5) / 8}
    p = problem("files", train=save(tmp_path / "a.npz", a=X, u=X, **nodes))
    assert p.placement == ("endpoint", "cell")
    files = []
    for n in (8, 16):
        x, y = np.arange(n) / (n - 1), (np.arange(n) + 0.5) / n
        u = np.exp(np.arange(1, 4)[:, None, None] * 0.5 * (x[:, None] + np.sin(2 * y)))
        files.append(save(tmp_path / f"{n}.npz", a=u, u=u))
    p = problem("files", train=files)
    assert p.placement == ("endpoint", "cell")
    assert "by comparing" in p.card()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"placement": ["cell"]}, r"got \('cell',\)"),
        ({"placement": ["cell", "centre"]}, "unknown placement 'centre'"),
        ({"placement": "endpoint,periodic"}, r"write \[endpoint, periodic\]"),
        ({"placement": 3}, "placement must be one of endpoint, cell"),
        ({"placement": []}, "placement must be one of endpoint, cell"),
        ({"placement": "cell", "domain": [1, 0]}, r"domain must be \[lo, hi\] with lo < hi"),
        ({"placement": "cell", "domain": "wide"}, r"domain must be \[lo, hi\]"),
        ({"placement": "cell", "domain": {"x": [0, 1]}}, r"domain must be \[lo, hi\]"),
        ({"placement": "cell", "channels": "lats"}, "did you mean 'last'"),
        ({"placement": "cell", "channels": 3}, "channels must be text"),
        ({"placement": "cell", "axes": 4}, "axes must be the number of spatial axes"),
        ({"placement": "cell", "axes": "nxw"}, "axes must be the number of spatial axes"),
        ({"placement": "cell", "axes": {"x": 3}}, "axes must be the number of spatial axes"),
        ({"placement": "cell", "allow_nan": "maybe"}, "allow_nan must be true or false"),
        ({"placement": "cell", "ignore_coordinates": 2}, "ignore_coordinates must be true or false"),
        ({"placement": "cell", "allow_nan": True, "skip_nan": True}, "choose one"),
        ({"placement": "cell", "input": 0.5}, "input must be the name of a field"),
        ({"placement": "cell", "input_time": -1}, "input_time must be the index of a time step"),
        ({"placement": "cell", "axes": {"z": "nxy"}}, "axes: unknown field 'z'"),
        ({"placement": "cell", "axes": "nxyc"}, r"axes=nxyc name 4 axes, which no array has: x \(6, 9, 8\)"),
        ({"placement": "cell", "_kept": {}}, "unknown parameter '_kept'"),
        ({"placement": "cell", "test": 7}, "test must be a file, or a list of files"),
    ],
)
def test_bad_values_are_named(tmp_path, given, message):
    with pytest.raises((ValueError, TypeError), match=message):
        problem("files", train=save(tmp_path / "a.npz", x=X, y=X), **given)


def test_a_domain_decides_what_coordinates_leave_open(tmp_path):
    """0.3 … 1.7 are endpoint nodes of [0.3, 1.7], or cell centres of [0.2, 1.8]: no end is round."""
    r = np.linspace(0.3, 1.7, 8)
    path = save(tmp_path / "a.npz", a=X[:, :8], u=X[:, :8], x=r, y=r)
    with pytest.raises(ValueError, match="do not say where the axis ends"):
        problem("files", train=path)
    assert problem("files", train=path, domain=[0.3, 1.7]).placement == "endpoint"
    assert problem("files", train=path, domain=[[0.2, 1.8], [0.3, 1.7]]).placement == ("cell", "endpoint")
    assert "domain [0.2, 1.8] × [0.2, 1.8]" in str(describe(path, domain=[0.2, 1.8]))


def test_channels_last_and_letters(tmp_path):
    a, u = RNG.normal(size=(6, 9, 8, 3)), RNG.normal(size=(6, 9, 8, 1))
    path = save(tmp_path / "a.npz", a=a, u=u)
    for said in ({}, {"channels": "last"}, {"axes": "nxyc"}, {"axes": {"a": "nxyc", "u": "nxyc"}}):
        p = problem("files", train=path, placement="cell", **said)
        assert p.inputs == ("a[0]", "a[1]", "a[2]")
        x, y = p.sample([4], (9, 8), dtype=torch.float64)
        np.testing.assert_array_equal(x[0], a[4].transpose(2, 0, 1))
        np.testing.assert_array_equal(y[0, 0], u[4, :, :, 0])


def test_pairs_of_npy_with_letters_of_their_own(tmp_path):
    np.save(tmp_path / "in.npy", RNG.normal(size=(6, 8, 8, 3)))
    np.save(tmp_path / "out.npy", RNG.normal(size=(6, 8, 8)))
    pair = f"{tmp_path / 'in.npy'}+{tmp_path / 'out.npy'}"
    with pytest.raises(ValueError, match="say which with channels=first or channels=last"):
        problem("files", train=pair, placement="cell")
    assert len(problem("files", train=pair, placement="cell", channels="last").inputs) == 3
    assert len(problem("files", train=pair, placement="cell", axes={"in": "nxyc", "out": "nxy"}).inputs) == 3


def test_a_time_axis_and_one_field_as_input_and_output(tmp_path):
    u = RNG.normal(size=(6, 5, 9, 8))
    options = {"train": save(tmp_path / "a.npz", u=u), "placement": "cell", "axes": "ntxy", "input": "u", "output": "u"}
    p = problem("files", **options, input_time=0, output_time=4)
    x, y = p.sample([2], (9, 8), dtype=torch.float64)
    np.testing.assert_array_equal(x[0, 0], u[2, 0])
    np.testing.assert_array_equal(y[0, 0], u[2, 4])
    with pytest.raises(ValueError, match="holds time steps 0…4, got time step 5"):
        problem("files", **options, input_time=0, output_time=5).sample([0], (9, 8))
    with pytest.raises(ValueError, match="'u' has no time axis to take step 0 of"):
        problem("files", **options | {"axes": 2}, input_time=0).sample([0], (9, 8))
    with pytest.raises(ValueError, match=r"holds 5 time steps; say which with .*input_time="):
        problem("files", **options).sample([0], (9, 8))


def test_arrays_that_are_neither_input_nor_output_may_be_anything(tmp_path):
    path = save(tmp_path / "a.npz", a=X, u=X, mask=np.ones((6, 3, 3)), other=np.zeros((2, 9, 8)))
    assert problem("files", train=path, placement="cell").inputs == ("a",)
    with pytest.raises(ValueError, match="cannot be paired"):
        problem("files", train=path, placement="cell", input="other", output="u")


def test_float64_files_give_float64_data(tmp_path):
    path = save(tmp_path / "a.npz", x=X, y=2 * X)
    p = problem("files", train=path, placement="endpoint")
    x, _ = p.sample(3, (9, 8), dtype=torch.float64)
    np.testing.assert_array_equal(x[:, 0], X[:3])
    x, _ = p.sample([1], (5, 8), dtype=torch.float64)  # of a nested grid too
    np.testing.assert_array_equal(x[0, 0], X[1, ::2])
    assert p.sample(3, (9, 8))[0].dtype == torch.float32


@pytest.mark.parametrize("scale", [1e60, 1e-60])
def test_values_that_float32_cannot_hold_are_refused(tmp_path, scale):
    """Cast to float32 they would be infinite, or zero."""
    p = problem("files", train=save(tmp_path / "a.npz", x=X, y=scale * X), placement="cell")
    with pytest.raises(ValueError, match=r"out of the range of float32.*dtype=float64"):
        p.sample(3, (9, 8))
    np.testing.assert_array_equal(p.sample(3, (9, 8), dtype=torch.float64)[1][:, 0], scale * X[:3])


def test_missing_values(tmp_path):
    """Refused; left out, at all resolutions of a set together; or given as they are."""
    fine, coarse = X[:, :, ::7].copy(), X[:, ::2, ::7].copy()
    fine[1, 0, 0], coarse[4, 0, 0] = np.nan, np.inf
    train = [save(tmp_path / "f.npz", x=fine, y=fine), save(tmp_path / "c.npz", x=coarse, y=coarse)]
    with pytest.raises(ValueError, match=r"holds NaN or infinite values.*skip_nan=true"):
        problem("files", train=train[0], placement="endpoint").sample(6, (9, 2))
    p = problem("files", train=train, placement="endpoint", skip_nan=True)
    assert p.splits == {"train": range(4)}
    np.testing.assert_array_equal(p.sample(4, (9, 2))[0][:, 0], fine[[0, 2, 3, 5]].astype(np.float32))
    np.testing.assert_array_equal(p.sample([3], (5, 2))[1][0, 0], coarse[5].astype(np.float32))
    assert "4 samples (2 with NaN left out) at 9×2" in p.card()
    assert "_kept" not in p.parameters()
    p = problem("files", train=train, placement="endpoint", allow_nan=True)
    assert int(p.sample(6, (9, 2))[0].isnan().sum()) == 1
    assert "6 samples at 9×2" in p.card()
    fine[:] = np.nan
    with pytest.raises(ValueError, match="every sample of the train files holds NaN"):
        problem("files", train=save(tmp_path / "n.npz", x=fine, y=fine), placement="cell", skip_nan=True)


def test_sets_must_store_their_axes_in_the_same_order(tmp_path):
    """The train file shows (sample, y, x) by its coordinates, the test file shows nothing."""
    nodes = {"x": (np.arange(9) + 0.5) / 9, "y": (np.arange(8) + 0.5) / 8}
    turned = X.transpose(0, 2, 1)
    train, test = save(tmp_path / "a.npz", a=turned, u=turned, **nodes), save(tmp_path / "b.npz", a=turned, u=turned)
    assert problem("files", train=train).shape((9, 8)) == (9, 8)
    with pytest.raises(ValueError, match="in the order xy and others in the order yx; name the axes, as in axes=nyx"):
        problem("files", train=train, test=test, placement="cell")
    p = problem("files", train=train, test=test, placement="cell", axes="nyx")
    np.testing.assert_array_equal(p.sample([8], (9, 8), dtype=torch.float64)[0][0, 0], X[2])


def test_sets_must_have_the_same_axes(tmp_path):
    train, test = save(tmp_path / "a.npz", x=X, y=X), save(tmp_path / "b.npz", x=X[:, 0], y=X[:, 0])
    with pytest.raises(ValueError, match=r"b\.npz: no fields found"):
        problem("files", train=train, test=test, placement="cell")
    none = np.zeros((6, 0, 9, 8))
    with pytest.raises(ValueError, match=r"d\.npz: the input 'x' holds no values"):
        problem("files", train=save(tmp_path / "d.npz", x=none, y=X), placement="cell", channels="first")
    with pytest.raises(ValueError, match=r"the train files hold no samples"):
        problem("files", train=save(tmp_path / "c.npz", x=X[:0], y=X[:0]), placement="cell")


def test_what_is_input_and_output_is_not_guessed(tmp_path):
    """x and y may be coordinates of each sample, where there are a and u; one array alone is neither."""
    path = save(tmp_path / "a.npz", a=X, u=X, x=X, y=X)
    with pytest.raises(ValueError, match=r"not clear which field is the input .* got a, u, x, y; say so"):
        problem("files", train=path, placement="cell")
    assert problem("files", train=path, placement="cell", input="a", output="u").inputs == ("a",)
    with pytest.raises(ValueError, match="for one field at two times name its axes"):
        problem("files", train=save(tmp_path / "b.npz", u=X), placement="cell")
    np.save(tmp_path / "c.npy", X)
    with pytest.raises(ValueError, match=r"give two, as in inputs\.npy\+outputs\.npy"):
        problem("files", train=str(tmp_path / "c.npy"), placement="cell")


def test_a_tuple_of_tensors(tmp_path):
    torch.save((torch.from_numpy(X), torch.from_numpy(2 * X)), tmp_path / "a.pt")
    p = problem("files", train=tmp_path / "a.pt", placement="cell", input=0, output=1)
    np.testing.assert_array_equal(p.sample([2], (9, 8), dtype=torch.float64)[1][0, 0], 2 * X[2])


def test_things_that_are_no_files_of_fields(tmp_path):
    io = pytest.importorskip("scipy.io")
    io.savemat(tmp_path / "a.mat", {"data": {"x": X, "y": X}})
    (tmp_path / "a.npz").write_text("hello")
    for path, message in [
        (tmp_path, "a folder; expected a file"),
        (tmp_path / "a.mat", r"no arrays of numbers, got data \(struct\); store each field as a variable of its own"),
        (tmp_path / "a.npz", r"not a plain \.npz of arrays: .* \(it is no zip archive\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            problem("files", train=str(path), placement="cell")
