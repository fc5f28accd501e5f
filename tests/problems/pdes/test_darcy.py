"""Darcy: two values only, consistent pairs, an independent solve, finer grids, other placements."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy.sparse.linalg import spsolve

from quadnorm.problems import problem
from quadnorm.problems.solvers import fields


def direct(a):
    """The 5-point scheme by Kronecker products of difference matrices, solved by sparse LU."""
    n = len(a)
    d = sp.diags_array([1.0, -1.0], offsets=[0, -1], shape=(n - 1, n - 2)) * (n - 1)  # differences across the faces
    eye = sp.eye_array(n - 2)
    gx, gy = sp.kron(d, eye), sp.kron(eye, d)
    ax = ((a[1:, 1:-1] + a[:-1, 1:-1]) / 2).ravel()
    ay = ((a[1:-1, 1:] + a[1:-1, :-1]) / 2).ravel()
    m = gx.T @ sp.diags_array(ax) @ gx + gy.T @ sp.diags_array(ay) @ gy
    out = np.zeros((n, n))
    out[1:-1, 1:-1] = spsolve(sp.csc_array(m), np.ones((n - 2) ** 2)).reshape(n - 2, n - 2)
    return out


def test_default_grid_has_two_values_and_a_small_residual():
    p = problem("darcy")
    drawn = p.instances(2)
    assert drawn["u"].shape == (2, 421, 421)
    assert drawn["residual"].max() < 5e-12
    assert 15 <= drawn["iterations"].min() <= drawn["iterations"].max() <= 32
    x, y = p.sample(2, 421)
    assert set(x.exp().round(decimals=4).unique().tolist()) == {3.0, 12.0}
    assert torch.equal(y[:, 0], torch.from_numpy(drawn["u"]).float())
    assert (y[..., [0, -1], :] == 0).all()
    assert (y[..., [0, -1]] == 0).all()


def test_every_resolution_stays_binary():
    p = problem("darcy", fine=105)
    for n in (12, 32, 64, 105):
        x, _ = p.sample(2, n, dtype=torch.float64)
        assert set(x.unique().tolist()) == {math.log(3.0), math.log(12.0)}


def test_coefficient_is_the_sign_of_the_field():
    p = problem("darcy", fine=41, modes=20)
    x, _ = p.sample([3], 41, seed=5, dtype=torch.float64)
    t = np.linspace(0, 1, 41)
    basis = np.sqrt(2) * np.cos(np.pi * np.outer(t, np.arange(20)))
    basis[:, 0] = 1
    g = basis @ p.field(3, seed=5) @ basis.T
    assert ((x[0, 0].numpy() > 2) == (g >= 0)).all()


def test_agrees_with_a_sparse_direct_solve():
    p = problem("darcy", fine=65)
    x, y = p.sample(3, 65, dtype=torch.float64)
    for log_a, u in zip(x[:, 0].numpy(), y[:, 0].numpy(), strict=True):
        want = direct(np.exp(log_a))
        assert np.abs(u - want).max() < 1e-11 * want.max()


def test_finer_solves_approach_one_another():
    """The same field on 106, 211, 421 nodes per axis: differences on the common nodes shrink at about first order."""
    coarse = [problem("darcy", fine=n, modes=64).sample(4, 106, dtype=torch.float64)[1] for n in (106, 211, 421)]
    first = torch.linalg.norm(coarse[0] - coarse[2]) / torch.linalg.norm(coarse[2])
    second = torch.linalg.norm(coarse[1] - coarse[2]) / torch.linalg.norm(coarse[2])
    assert second < 0.6 * first
    assert second < 0.02


def test_the_medium_is_the_same_on_finer_grids():
    """The field is a function: where both grids have a node, both see the same value, except within rounding of 0."""
    wet = [problem("darcy", fine=n, modes=64).instances(2)["wet"] for n in (53, 105)]
    assert (wet[0] == wet[1][:, ::2, ::2]).all()


def test_cubic_restriction_is_close_to_index_selection():
    """They differ by the distance between a node and its nearest fine node: at most half a spacing times |∇u|."""
    kw = {"fine": 211, "modes": 64}
    x, y = problem("darcy", **kw).sample(3, 64, dtype=torch.float64)
    cx, cy = problem("darcy", restriction="cubic", **kw).sample(3, 64, dtype=torch.float64)
    assert torch.equal(x, cx)
    assert 0 < (y - cy).abs().max() / y.max() < 0.03
    fine = problem("darcy", **kw).sample(3, 211, dtype=torch.float64)[1]
    assert torch.equal(
        problem("darcy", restriction="cubic", **kw).sample(3, 106, dtype=torch.float64)[1], fine[..., ::2, ::2]
    )


def test_cell_centres():
    """Cell centres of n cells are odd nodes of the endpoint grid of 2n+1 nodes."""
    kw = {"fine": 65, "modes": 30}
    for restriction in ("index", "cubic"):
        x, y = problem("darcy", placement="cell", restriction=restriction, **kw).sample(2, 16, dtype=torch.float64)
        ex, ey = problem("darcy", **kw).sample(2, 33, dtype=torch.float64)
        assert torch.equal(x, ex[..., 1::2, 1::2])
        assert torch.equal(y, ey[..., 1::2, 1::2])


@pytest.mark.parametrize("seed", [0, 1])
def test_half_of_the_domain_is_wet(seed):
    """The field is symmetric about 0, so P(a = 12) = ½; one sample's share has a standard deviation below 0.25."""
    p = problem("darcy", fine=33, modes=24)
    share = np.mean([(fields.on_fine_grid(p.field(i, seed), 33) >= 0).mean() for i in range(200)])
    assert abs(share - 0.5) < 4 * 0.25 / np.sqrt(200)


def test_a_shift_is_subtracted_from_the_solution_on_every_grid() -> None:
    plain, shifted = problem("darcy", fine=33), problem("darcy", fine=33, shift=0.0053)
    for n in (9, 17):
        (a, u), (b, v) = plain.sample(range(3), n), shifted.sample(range(3), n)
        assert torch.equal(a, b)
        torch.testing.assert_close(v, u - 0.0053)
    assert plain.key() == shifted.key()  # the same instances
