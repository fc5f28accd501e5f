"""Files that follow each other along samples: one pattern, one set."""

import numpy as np
import pytest
import torch

from quadnorm.problems import problem

RNG = np.random.default_rng(0)
A = RNG.normal(size=(9, 8, 8))


def written(folder, counts=(4, 2, 3), **changes):
    start = 0
    for k, count in enumerate(counts):
        part = A[start : start + count]
        np.savez(folder / f"part_{k}.npz", a=part, u=2 * part, **(changes if k == 1 else {}))
        start += count
    return str(folder / "part_*.npz")


def test_parts_are_one_set_in_the_order_of_their_names(tmp_path):
    p = problem("files", train=written(tmp_path), placement="cell")
    assert len(p.splits["train"]) == 9
    index = [8, 0, 5, 4, 3, 5]
    x, y = p.sample(index, 8, dtype=torch.float64)
    np.testing.assert_array_equal(x[:, 0], A[index])
    np.testing.assert_array_equal(y[:, 0], 2 * A[index])
    p.check_tests()


def test_show_takes_a_pattern(tmp_path, capsys):
    from quadnorm.cli.app import run

    pattern = written(tmp_path)
    assert run(["data", "show", pattern, "-p", "placement=cell", "-n", "1", "-o", str(tmp_path / "a.png")]) == 0
    assert "9 samples at 8×8" in capsys.readouterr().out
    assert (tmp_path / "a.png").stat().st_size > 5000


def test_nan_is_found_in_the_part_that_has_it(tmp_path):
    path = written(tmp_path)
    bad = A[6:].copy()
    bad[1, 2, 2] = np.nan
    np.savez(tmp_path / "part_2.npz", a=bad, u=bad)
    p = problem("files", train=path, placement="cell", skip_nan=True)
    assert len(p.splits["train"]) == 8
    with pytest.raises(ValueError, match=r"1 of 9 samples read \(7\)"):
        problem("files", train=path, placement="cell").sample(range(9), 8)


def test_parts_that_differ_are_named(tmp_path):
    path = written(tmp_path)
    np.savez(tmp_path / "part_1.npz", a=A[4:6, :4], u=A[4:6, :4])
    with pytest.raises(ValueError, match=r"part_1\.npz has other nodes than part_0\.npz"):
        problem("files", train=path, placement="cell")
    np.savez(tmp_path / "part_1.npz", a=A[4:6], v=A[4:6])
    with pytest.raises(ValueError, match=r"'u' is nxy .* no such field in part_1\.npz"):
        problem("files", train=path, placement="cell")
    with pytest.raises(FileNotFoundError, match=r"none_\*\.npz: no such file"):
        problem("files", train=str(tmp_path / "none_*.npz"), placement="cell")
