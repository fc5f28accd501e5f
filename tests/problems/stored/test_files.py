"""A user's own files as a problem: what is read, what is found out, what is refused."""

import h5py
import numpy as np
import pytest
import torch

from quadnorm.problems import problem
from quadnorm.problems.stored.describe import describe

NODES = {
    "endpoint": lambda n: np.arange(n) / (n - 1),
    "cell": lambda n: (np.arange(n) + 0.5) / n,
    "left": lambda n: np.arange(n) / n,
}


def fields(n, count, placement="endpoint", seed=0):
    """Smooth random instances at the nodes of one grid: the same instances for every n."""
    rng = np.random.default_rng(seed)
    r = NODES[placement](n)
    a, b, c = rng.uniform(0.5, 2, (3, count, 1, 1))
    x = np.exp(a * r[:, None]) * np.cos(b * r)
    return x.astype(np.float32), (x**2 + c * r[:, None]).astype(np.float32)


def save(path, n, count, placement="endpoint", seed=0, names=("x", "y"), **more):
    x, y = fields(n, count, placement, seed)
    np.savez(path, **{names[0]: x, names[1]: y}, **more)
    return str(path)


def test_sets_are_numbered_one_after_the_other(tmp_path):
    train, test = save(tmp_path / "a", 9, 6) + ".npz", save(tmp_path / "b", 9, 3, seed=1) + ".npz"
    fine = save(tmp_path / "c", 17, 3, seed=1) + ".npz"
    p = problem("files", train=train, test=[test, fine], placement="endpoint")
    assert p.splits == {"train": range(6), "test": range(6, 9)}
    x, y = p.sample([5, 6, 8], 9)
    np.testing.assert_array_equal(x[0, 0].numpy(), fields(9, 6)[0][5])
    np.testing.assert_array_equal(y[1:, 0].numpy(), fields(9, 3, seed=1)[1][[0, 2]])
    np.testing.assert_array_equal(p.sample([7], 17)[0][0, 0].numpy(), fields(17, 3, seed=1)[0][1])
    assert (p.inputs, p.outputs) == (("x",), ("y",))


@pytest.mark.parametrize("placement", NODES)
def test_two_resolutions_of_the_same_instances_show_the_placement(tmp_path, placement):
    train = save(tmp_path / "a", 16, 4, placement) + ".npz"
    test = [save(tmp_path / f"t{n}", n, 5, placement, seed=2) + ".npz" for n in (16, 32)]
    p = problem("files", train=train, test=test)
    assert p.placement == placement
    assert "by comparing" in p.card()


def test_coordinates_in_the_file_decide(tmp_path):
    r = NODES["cell"](16)
    np.savez(tmp_path / "a.npz", a=np.zeros((4, 16, 16)), u=np.ones((4, 16, 16)), x=r, y=r)
    p = problem("files", train=str(tmp_path / "a.npz"))
    assert p.placement == "cell"
    assert "by the coordinates" in p.card()


def test_the_placement_is_never_assumed(tmp_path):
    train = save(tmp_path / "a", 16, 4) + ".npz"
    with pytest.raises(ValueError, match="does not say where the 16 nodes of axis x lie; pass placement="):
        problem("files", train=train)


def test_nested_grids_are_taken_from_stored_ones(tmp_path):
    p = problem("files", train=save(tmp_path / "a", 17, 4) + ".npz", placement="endpoint")
    np.testing.assert_array_equal(p.sample([1], 9)[0][0, 0].numpy(), fields(17, 4)[0][1, ::2, ::2])
    with pytest.raises(ValueError, match=r"stored at 17×17, got 33×33; choose one of these"):
        p.sample([1], 33)
    with pytest.raises(ValueError, match=r"stored at 17×17, got 10×10"):
        p.sample([1], 10)


def test_pairs_of_npy_stay_on_disk(tmp_path):
    x, y = fields(9, 5)
    np.save(tmp_path / "in.npy", x)
    np.save(tmp_path / "out.npy", y)
    p = problem("files", train=f"{tmp_path / 'in.npy'}+{tmp_path / 'out.npy'}", placement="endpoint")
    np.testing.assert_array_equal(p.sample([3], 9)[1][0, 0].numpy(), y[3])


def test_pt_hdf5_and_channels(tmp_path):
    x, y = fields(9, 5)
    torch.save({"x": torch.from_numpy(np.stack([x, y], 1)), "y": torch.from_numpy(y)}, tmp_path / "a.pt")
    p = problem("files", train=str(tmp_path / "a.pt"), placement="endpoint")
    assert p.inputs == ("x[0]", "x[1]")
    assert tuple(p.sample([0], 9)[0].shape) == (1, 2, 9, 9)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["coeff"], file["sol"] = x, y
    p = problem("files", train=str(tmp_path / "a.h5"), placement="endpoint")
    np.testing.assert_array_equal(p.sample([4], 9)[1][0, 0].numpy(), y[4])


def test_units_stand_on_the_card(tmp_path):
    """Those of the file; those that were given go before, and change no instance."""
    x, y = fields(9, 5)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["coeff"], file["sol"] = x, y
        file["sol"].attrs["units"] = "m/s"
    path = str(tmp_path / "a.h5")
    assert str(describe(path, placement="endpoint")).endswith(f"{y.min():.4g} … {y.max():.4g} m/s")
    p = problem("files", train=path, placement="endpoint")
    assert p.card().endswith(f"{y.max():.4g} m/s")
    q = problem("files", train=path, placement="endpoint", input_units="Pa", output_units="km/h")
    assert f"{x.max():.4g} Pa, sol" in q.card()
    assert q.card().endswith("km/h")
    assert p.key() == q.key()


def test_one_dimension(tmp_path):
    r = np.linspace(0, 1, 33)
    np.savez(tmp_path / "a.npz", x=np.sin(np.outer(np.arange(1, 5), r)), y=np.cos(np.outer(np.arange(1, 5), r)))
    p = problem("files", train=str(tmp_path / "a.npz"), placement="endpoint", axes=1)
    assert tuple(p.sample(range(4), 33)[0].shape) == (4, 1, 33)


@pytest.mark.parametrize("names", [("initial", "final"), ("a0", "uT")])
def test_usual_names_are_found(tmp_path, names):
    p = problem("files", train=save(tmp_path / "a", 9, 4, names=names) + ".npz", placement="endpoint")
    assert (p.inputs, p.outputs) == ((names[0],), (names[1],))


def test_bad_files_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"no file to train on; give train="):
        problem("files")
    with pytest.raises(FileNotFoundError, match=r"none\.npz"):
        problem("files", train=str(tmp_path / "none.npz"), placement="cell")
    path = save(tmp_path / "a", 9, 4, names=("one", "two")) + ".npz"
    with pytest.raises(ValueError, match=r"not clear which field is the input .* got one, two; say so with input="):
        problem("files", train=path, placement="cell")
    assert problem("files", train=path, placement="cell", input="one", output="two").inputs == ("one",)
    with pytest.raises(ValueError, match=r"unknown field 'tow'; did you mean 'two'"):
        problem("files", train=path, placement="cell", input="one", output="tow")
    other = save(tmp_path / "b", 17, 3, names=("one", "two")) + ".npz"
    same = save(tmp_path / "c", 9, 4, names=("one", "two")) + ".npz"
    with pytest.raises(ValueError, match=r"a\.npz is given for both train and test; leave test= out"):
        problem("files", train=path, test=path, placement="cell", input="one", output="two")
    with pytest.raises(ValueError, match=r"the test files hold different numbers of samples"):
        problem("files", train=path, test=[same, other], placement="cell", input="one", output="two")
    p = problem("files", train=path, placement="cell", input="one", output="two")
    with pytest.raises(IndexError, match=r"the files hold 4 train samples, indices 0 … 3; got index 7"):
        p.sample([7], 9)


def fields_of(n=9, count=6, channels=None):
    r = np.linspace(0, 1, n)
    shape = (count, n, n) if channels is None else (count, channels, n, n)
    return np.broadcast_to(np.sin(3 * r)[:, None] * np.exp(r), shape) * np.arange(1, count + 1).reshape(
        -1, *[1] * (len(shape) - 1)
    )


def test_a_field_that_is_named_is_taken(tmp_path):
    """Also where the file holds a usual pair, and only one of the two is named."""
    a = fields_of()
    np.savez(tmp_path / "xy.npz", x=a, y=2 * a, foo=a**2)
    options = {"train": str(tmp_path / "xy.npz"), "placement": "endpoint"}
    p = problem("files", **options, input="foo")
    assert (p.inputs, p.outputs) == (("foo",), ("y",))
    p = problem("files", **options, output="foo")
    assert (p.inputs, p.outputs) == (("x",), ("foo",))
    with pytest.raises(ValueError, match="unknown field 'fo'"):
        problem("files", **options, input="fo")


@pytest.mark.parametrize("more", [1, 2])
def test_files_must_agree_on_channels(tmp_path, more):
    a = fields_of(channels=2)
    both, one = a, a[:, :1]
    np.savez(tmp_path / "train.npz", x=both if more == 2 else one, y=both if more == 2 else one)
    np.savez(tmp_path / "test.npz", x=one if more == 2 else both, y=one if more == 2 else both)
    with pytest.raises(ValueError, match=r"test\.npz has \d channels of input \(x\), .*train\.npz has \d"):
        problem("files", train=str(tmp_path / "train.npz"), test=str(tmp_path / "test.npz"), placement="endpoint")


def test_a_mat_file_is_recognized_by_its_arrays_and_says_so(tmp_path):
    io = pytest.importorskip("scipy.io")
    io.savemat(tmp_path / "m.mat", {"coeff": fields_of(), "sol": fields_of()})
    p = problem("files", train=str(tmp_path / "m.mat"))
    assert p.placement == "cell"
    assert "as in the Fourier neural operator's files" in p.card()
    assert "by the coordinates" not in p.card()


@pytest.mark.parametrize("kind", ["h5", "mat"])
def test_one_and_three_axes_in_other_formats(tmp_path, kind):
    for axes, shape in ((1, (5, 9)), (3, (5, 6, 4, 3))):
        x = np.random.default_rng(0).normal(size=shape)
        path = tmp_path / f"{axes}.{kind}"
        if kind == "h5":
            with pytest.importorskip("h5py").File(path, "w") as file:
                file["x"], file["y"] = x, 2 * x
        else:
            pytest.importorskip("scipy.io").savemat(path, {"x": x, "y": 2 * x})
        p = problem("files", train=str(path), axes=axes, placement="endpoint")
        got, _ = p.sample(2, shape[1:])
        np.testing.assert_allclose(got[:, 0], x[:2], rtol=1e-6)


def test_a_plus_in_a_name_joins_nothing(tmp_path):
    np.savez(tmp_path / "s1e+20.npz", x=fields_of(), y=fields_of())
    assert problem("files", train=str(tmp_path / "s1e+20.npz"), placement="endpoint").inputs == ("x",)


def test_a_placement_that_two_resolutions_contradict_is_noticed(tmp_path):
    for n in (9, 17):
        np.savez(tmp_path / f"{n}.npz", x=fields_of(n), y=fields_of(n))
    files = [str(tmp_path / f"{n}.npz") for n in (9, 17)]
    problem("files", train=files, placement="endpoint")
    with pytest.warns(UserWarning, match="declared cell, cell, but"):
        problem("files", train=files, placement="cell")
