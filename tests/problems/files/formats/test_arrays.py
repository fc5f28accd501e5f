"""Readers of MATLAB, torch and NumPy files, on small files written here in the public layouts, whole and damaged."""

import os
import pickle

import numpy as np
import pytest
import torch

from quadnorm.problems.files import read_fields, read_mat, read_npy, read_pt
from quadnorm.problems.stored.fetch import official_file

RNG = np.random.default_rng(5)
COEFF = RNG.choice([3.0, 12.0], (6, 9, 9))
SOL = RNG.standard_normal((6, 9, 9))


class Bomb:
    """Unpickling this makes a folder: proof that code ran."""

    def __init__(self, target):
        self.target = str(target)

    def __reduce__(self):
        return os.mkdir, (self.target,)


def darcy_v5(path, **changes):
    from scipy.io import savemat

    content = {"coeff": COEFF, "sol": SOL, "Kcoeff": COEFF, "Kcoeff_x": COEFF, "Kcoeff_y": COEFF} | changes
    savemat(path, content, do_compression=True)
    return path


def as_v73(path, content):
    """MATLAB's layout: a 512-byte header, then HDF5 with every array's axes reversed."""
    import h5py

    with h5py.File(path, "w", userblock_size=512) as file:
        for name, values in content.items():
            file[name] = values.T
    with path.open("r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(116) + b" " * 8 + b"\x00\x02IM")
    return path


def test_mat_v5_and_v73_give_the_same_fields(tmp_path):
    old = read_fields(darcy_v5(tmp_path / "old.mat"))
    new = read_fields(as_v73(tmp_path / "new.mat", {"coeff": COEFF, "sol": SOL}))
    assert (old.layout, new.layout) == ("mat-5", "mat-7.3")
    for data in (old, new):
        assert data.placement == ("cell", "cell")
        np.testing.assert_allclose(data.coordinates[0], (np.arange(9) + 0.5) / 9)
        assert len(data) == 6
        np.testing.assert_array_equal(data["coeff"].read(), COEFF)
        np.testing.assert_array_equal(data["sol"].read([4, 1, 4]), SOL[[4, 1, 4]])
        x = data.tensor("sol", slice(1, 3))
        assert x.dtype == torch.float32
        torch.testing.assert_close(x, torch.from_numpy(SOL[1:3, None]).float(), rtol=0, atol=0)
    assert set(old.fields) == {"coeff", "sol", "Kcoeff", "Kcoeff_x", "Kcoeff_y"}


def test_mat_navier_stokes_layout(tmp_path):
    a, u, t = RNG.standard_normal((4, 8, 8)), RNG.standard_normal((4, 8, 8, 5)), np.arange(1.0, 6.0)[None]
    data = read_fields(as_v73(tmp_path / "ns.mat", {"a": a, "u": u, "t": t}))
    assert data.placement == ("periodic", "periodic")
    np.testing.assert_array_equal(data.times, t[0])
    np.testing.assert_array_equal(data.tensor("u", [3], time=2, dtype=torch.float64)[0, 0].numpy(), u[3, :, :, 2])
    with pytest.raises(ValueError, match=r"holds 5 time steps; say which with time=0…4"):
        data.tensor("u")


def test_mat_of_unknown_keys_asks_for_the_placement(tmp_path):
    from scipy.io import savemat

    savemat(tmp_path / "mine.mat", {"k": SOL, "note": "text"})
    with pytest.raises(ValueError, match=r"mine\.mat.*does not say.*placement="):
        read_mat(tmp_path / "mine.mat")
    assert read_mat(tmp_path / "mine.mat", placement="endpoint").coordinates[1][-1] == 1.0


def test_wrong_key_lists_and_suggests(tmp_path):
    with pytest.raises(ValueError, match=r"old\.mat: unknown field 'soll'; did you mean 'sol'\? Known: Kcoeff"):
        read_fields(darcy_v5(tmp_path / "old.mat"), fields=["soll"])
    with pytest.raises(ValueError, match="did you mean 'coeff'"):
        read_fields(darcy_v5(tmp_path / "old.mat")).tensor("coef")


@pytest.mark.parametrize("keep", [40, 200, 2000, 0.3, 0.7, 0.95])
def test_truncated_mat_v5(tmp_path, keep):
    path = darcy_v5(tmp_path / "cut.mat")
    whole = path.read_bytes()
    path.write_bytes(whole[: int(keep if keep > 1 else keep * len(whole))])
    with pytest.raises((ValueError, OSError), match=r"cut\.mat"):
        read_fields(path, fields=["coeff", "sol", "Kcoeff_y"])["Kcoeff_y"].read()


def test_truncated_mat_v73(tmp_path):
    path = as_v73(tmp_path / "cut.mat", {"coeff": COEFF, "sol": SOL})
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(ValueError, match=r"cut\.mat.*cut short"):
        read_fields(path)


def test_nan_names_the_samples(tmp_path):
    sol = SOL.copy()
    sol[[2, 5], 0, 0] = np.nan, np.inf
    data = read_fields(darcy_v5(tmp_path / "nan.mat", sol=sol))
    with pytest.raises(ValueError, match=r"nan\.mat: 'sol' holds NaN or infinite values in 2 of 6 .*\(2, 5\)"):
        data.tensor("sol")
    with pytest.raises(ValueError, match=r"1 of 2 samples read \(5\)"):
        data.tensor("sol", [0, 5])
    assert data.tensor("sol", [0, 1]).isfinite().all()
    assert data.tensor("sol", allow_nan=True).isnan().sum() == 1


def test_mismatched_counts_and_grids(tmp_path):
    with pytest.raises(ValueError, match=r"different numbers of samples: .*coeff 6, sol 4"):
        read_fields(darcy_v5(tmp_path / "a.mat", sol=SOL[:4]), fields=["coeff", "sol"])
    with pytest.raises(ValueError, match="different grids"):
        read_fields(darcy_v5(tmp_path / "b.mat", sol=SOL[:, :5]))


def test_indices_outside_the_file(tmp_path):
    data = read_fields(darcy_v5(tmp_path / "a.mat"))
    for wrong in ([6], [-1]):
        with pytest.raises(IndexError, match="holds samples 0…5"):
            data["sol"].read(wrong)


def test_pt_dictionary_of_neuraloperator(tmp_path):
    x, y = torch.from_numpy(COEFF > 5), torch.from_numpy(SOL).float()
    torch.save({"x": x, "y": y}, tmp_path / "darcy_train_9.pt")
    with pytest.raises(ValueError, match="does not say"):
        read_fields(tmp_path / "darcy_train_9.pt")
    data = read_fields(tmp_path / "darcy_train_9.pt", placement="cell")
    assert torch.equal(data.tensor("x"), x[:, None].float())
    assert torch.equal(data.tensor("y", [2]), y[2:3, None])
    torch.save({"x": x[:, None].expand(6, 3, 9, 9), "y": y}, tmp_path / "channels.pt")
    assert read_pt(tmp_path / "channels.pt", placement="cell").tensor("x").shape == (6, 3, 9, 9)


def test_pt_of_other_containers(tmp_path):
    """Tensors in a dictionary inside, in a tuple, or alone."""
    x, y = torch.rand(6, 9, 9), torch.rand(6, 9, 9)
    path = tmp_path / "a.pt"
    for content, names in (({"train": {"x": x, "y": y}}, ["train/x", "train/y"]), ((x, y), ["0", "1"]), (x, ["data"])):
        torch.save(content, path)
        data = read_pt(path, placement="cell")
        assert list(data.fields) == names
        assert torch.equal(data.tensor(names[0])[:, 0], x)


def test_pt_errors(tmp_path):
    path = tmp_path / "a.pt"
    torch.save(["text", 3], path)
    with pytest.raises(ValueError, match=r"a\.pt: expected tensors, best a dictionary .* such as \{x, y\}, got list"):
        read_pt(path, placement="cell")
    circle = {"x": torch.zeros(6, 9, 9)}
    circle["again"] = circle
    torch.save(circle, path)
    with pytest.raises(ValueError, match=r"a\.pt: containers are nested more than 16 levels deep"):
        read_pt(path, placement="cell")
    torch.save({"x": torch.zeros(6, 9, 9), "y": torch.zeros(5, 9, 9)}, path)
    with pytest.raises(ValueError, match="different numbers of samples: x 6, y 5"):
        read_pt(path, placement="cell")
    path.write_bytes(path.read_bytes()[:700])
    with pytest.raises(ValueError, match=r"a\.pt: not a readable \.pt file"):
        read_pt(path, placement="cell")
    with pytest.raises(FileNotFoundError, match=r"none\.pt"):
        read_pt(tmp_path / "none.pt")


@pytest.mark.parametrize("name", ["bomb.pt", "plain.pt", "bomb.npy", "raw.npy", "bomb.npz", "raw.npz", "raw.mat"])
def test_no_pickle_is_ever_executed(tmp_path, name):
    """The same bomb goes off under pickle.loads, so its silence here means that nothing was unpickled."""
    target, path = tmp_path / "exploded", tmp_path / name
    bomb = Bomb(target)
    if name == "bomb.pt":
        torch.save({"x": torch.zeros(2, 3, 3), "y": bomb}, path)
    elif name == "bomb.npy":
        np.save(path, np.array([bomb], dtype=object), allow_pickle=True)
    elif name == "bomb.npz":
        np.savez(path, u=np.zeros((2, 3, 3)), v=np.array([bomb], dtype=object))
    else:
        path.write_bytes(pickle.dumps(bomb))
    with pytest.raises(ValueError, match=name.replace(".", r"\.")):
        read_fields(path, placement="cell")
    assert not target.exists()
    pickle.loads(pickle.dumps(bomb))
    assert target.exists()


def test_npy_is_memory_mapped(tmp_path):
    np.save(tmp_path / "u.npy", SOL)
    data = read_fields(tmp_path / "u.npy", placement="endpoint")
    np.testing.assert_array_equal(data["data"].read([3, 0]), SOL[[3, 0]])
    assert data["data"].load.__self__.filename is not None
    assert read_npy(tmp_path / "u.npy", axes="ntx", placement="periodic").tensor("data", time=2).shape == (6, 1, 9)
    with pytest.raises(ValueError, match=r"has 3 dimensions, .* expected samples and 3 spatial axes"):
        read_npy(tmp_path / "u.npy", dim=3, placement="cell")
    (tmp_path / "u.npy").write_bytes((tmp_path / "u.npy").read_bytes()[:300])
    with pytest.raises(ValueError, match=r"u\.npy: not a plain \.npy"):
        read_fields(tmp_path / "u.npy", placement="endpoint")


def test_npz_that_tells_its_placement(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, u=SOL, placement=np.array("endpoint"))
    assert read_fields(path).placement == ("endpoint", "endpoint")
    np.savez(path, u=SOL, placement=np.array(["endpoint", "periodic"]))
    assert read_fields(path).placement == ("endpoint", "periodic")
    np.savez(path, u=SOL, x=np.linspace(0, 1, 9), y=np.linspace(0, 1, 9), placement=np.array("cell"))
    with pytest.raises(ValueError, match="the layout says that axis x is 'cell'"):
        read_fields(path)
    np.savez_compressed(path, u=SOL)
    path.write_bytes(path.read_bytes()[:-60])
    with pytest.raises(ValueError, match=r"a\.npz: not a plain \.npz"):
        read_fields(path)


def test_axes_that_do_not_fit(tmp_path):
    np.savez(tmp_path / "a.npz", u=SOL)
    for axes in ("nxyt", "nxx", "nab"):
        with pytest.raises(ValueError, match="which axes"):
            read_fields(tmp_path / "a.npz", axes={"u": axes}, placement="cell")


def test_endings_and_layouts(tmp_path):
    with pytest.raises(ValueError, match=r"unknown ending '\.csv'; known are \.mat"):
        read_fields(tmp_path / "a.csv")
    with pytest.raises(ValueError, match="did you mean 'the_well'"):
        read_fields(tmp_path / "a.h5", layout="the-well")
    with pytest.raises(FileNotFoundError, match=r"a\.h5"):
        read_fields(tmp_path / "a.h5")


def test_a_missing_official_file_says_which_whence_and_where(tmp_path, monkeypatch):
    monkeypatch.setenv("QUADNORM_DATA", str(tmp_path / "place"))
    name = "piececonst_r421_N1024_smooth1.mat"
    with pytest.raises(FileNotFoundError) as caught:
        official_file(name)
    message = str(caught.value)
    for part in (
        name,
        str(tmp_path / "place"),
        "Darcy_421.zip",
        "DOI 10.48550/arXiv.2010.08895",
        "DOI 10.5281/zenodo.12784353",
        "Fourier Neural Operator",
        "QUADNORM_DATA",
    ):
        assert part in message
    assert "http" not in message
    (tmp_path / name).touch()
    assert official_file(name, tmp_path) == tmp_path / name
