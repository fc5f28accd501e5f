"""The official Darcy files, on small files of the same layout: keys, dtypes, axis order, MATLAB v5 and v7.3."""

import h5py
import numpy as np
import pytest
import torch
from scipy.io import savemat

from quadnorm.problems import problem

N = 43  # small, and 42 = 2·3·7 divides in several ways as 420 does
ONE, TWO = "piececonst_r421_N1024_smooth1.mat", "piececonst_r421_N1024_smooth2.mat"


def content(count, seed):
    rng = np.random.default_rng(seed)
    coeff = rng.choice([3.0, 12.0], (count, N, N))
    x = (np.arange(N) + 0.5) / N
    smooth = np.sin(np.pi * x)[:, None] * np.sin(np.pi * x) * (1 + 0.3 * x[:, None])
    sol = 0.01 * smooth * rng.uniform(0.5, 2, (count, 1, 1))
    return {"coeff": coeff, "sol": sol, "Kcoeff": coeff, "Kcoeff_x": coeff, "Kcoeff_y": coeff}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("official")
    savemat(place / ONE, content(7, 1), do_compression=True)
    with h5py.File(place / TWO, "w", userblock_size=512) as file:  # v7.3: axes reversed
        for name, values in content(5, 2).items():
            file[name] = values.T
    return place


@pytest.fixture
def p(folder):
    return problem("darcy-official", folder=str(folder))


def test_indices_count_through_both_files(p):
    x, y = p.sample([6, 7, 0, 11], resolution=N, dtype=torch.float64)
    one, two = content(7, 1), content(5, 2)
    for row, (source, i) in enumerate([(one, 6), (two, 0), (one, 0), (two, 4)]):
        np.testing.assert_allclose(x[row, 0].numpy(), np.log(source["coeff"][i]), rtol=1e-15)
        np.testing.assert_allclose(y[row, 0].numpy(), source["sol"][i], rtol=1e-7)
    assert p.splits == {"train": range(7), "val": range(7, 7), "test": range(7, 12)}
    assert p.placement == "endpoint"
    with pytest.raises(IndexError, match="hold samples 0 … 11, got index 12"):
        p.sample([12], resolution=8)


def test_index_selection_is_round_of_linspace(p):
    for n in (8, 15, 22, 32):
        rows = np.round(np.linspace(0, N - 1, n)).astype(int)
        x, y = p.sample([2], resolution=n, dtype=torch.float64)
        source = content(7, 1)
        np.testing.assert_allclose(x[0, 0].numpy(), np.log(source["coeff"][2][np.ix_(rows, rows)]), rtol=1e-15)
        np.testing.assert_allclose(y[0, 0].numpy(), source["sol"][2][np.ix_(rows, rows)], rtol=1e-7)
        assert set(np.unique(x.exp().round(decimals=9).numpy())) == {3.0, 12.0}


@pytest.mark.parametrize("restriction", ["index", "bicubic"])
def test_matched_instances(folder, restriction):
    p = problem("darcy-official", folder=str(folder), restriction=restriction)
    for n in (4, 8, 11, 16, 22):
        coarse, fine = p.sample_many(range(3), [n, 2 * n - 1], dtype=torch.float64)
        for a, b in zip(coarse, fine, strict=True):
            torch.testing.assert_close(b[..., ::2, ::2], a, rtol=0, atol=1e-11)


def test_bicubic_reads_smooth_fields_between_the_nodes(folder):
    """At the places j·42/(n−1) of the stored index: the exact solution there, since sol is smooth."""
    p = problem("darcy-official", folder=str(folder), restriction="bicubic")
    n = 30
    _, y = p.sample([1], resolution=n, dtype=torch.float64)
    at = (np.arange(n) * (N - 1) / (n - 1) + 0.5) / N
    exact = np.sin(np.pi * at)[:, None] * np.sin(np.pi * at) * (1 + 0.3 * at[:, None])
    scale = content(7, 1)["sol"][1][20, 20] / (np.sin(np.pi * 20.5 / N) ** 2 * (1 + 0.3 * 20.5 / N))
    np.testing.assert_allclose(y[0, 0], scale * exact, atol=3e-6 * scale)
    _, whole = p.sample([1], resolution=N, dtype=torch.float64)
    np.testing.assert_allclose(whole[0, 0].numpy(), content(7, 1)["sol"][1], atol=1e-8)


def test_errors_teach(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("QUADNORM_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=rf"{ONE} is not in .*DOI 10\..*Put the file there"):
        problem("darcy-official").sample([0], resolution=8)
    p = problem("darcy-official", folder=str(folder))
    with pytest.raises(ValueError, match="have no seed, expected 0, got 3"):
        p.sample([0], resolution=8, seed=3)
    with pytest.raises(ValueError, match=r"finer than the \(43, 43\) nodes"):
        p.sample([0], resolution=44)
    with pytest.raises(ValueError, match="did you mean 'bicubic'"):
        problem("darcy-official", restriction="cubic")


def test_the_second_file_is_only_needed_for_its_samples(folder, tmp_path):
    (tmp_path / ONE).write_bytes((folder / ONE).read_bytes())
    p = problem("darcy-official", folder=str(tmp_path))
    assert p.sample(range(7), resolution=8)[0].shape == (7, 1, 8, 8)
    with pytest.raises(FileNotFoundError, match=TWO):
        p.sample([7], resolution=8)


def test_damaged_files(tmp_path):
    p = problem("darcy-official", folder=str(tmp_path))
    bad = content(4, 3)
    bad["sol"][2, 0, 0] = np.nan
    savemat(tmp_path / ONE, bad)
    with pytest.raises(ValueError, match=r"'sol' holds NaN .* in 1 of 4 samples read \(2\)"):
        p.sample([0], resolution=8)
    bad = content(4, 3)
    bad["coeff"][1] = 0
    savemat(tmp_path / ONE, bad)
    with pytest.raises(ValueError, match="must be positive everywhere"):
        p.sample([0], resolution=8)
    savemat(tmp_path / ONE, {"coeff": bad["coeff"], "solution": bad["sol"]})
    with pytest.raises(ValueError, match=r"smooth1\.mat"):
        p.sample([0], resolution=8)


def test_dataset_reads_the_files_and_fills_no_cache(p, tmp_path, monkeypatch):
    monkeypatch.setenv("QUADNORM_CACHE", str(tmp_path / "cache"))
    calls = []
    x, _ = p.dataset(range(3), 8, progress=lambda *a: calls.append(a))
    assert torch.equal(x, p.sample(range(3), 8)[0])
    assert calls == [(3, 3)]
    assert not (tmp_path / "cache").exists()
