"""Elasticity: the force follows from the displacement; finite elements find the displacement from the force."""

import numpy as np
import pytest
import torch

from quadnorm.problems import problem


def displacement(p, n, index=0):
    """u1 and u2 at endpoint nodes, summed here from the drawn coefficients."""
    u_hat = p.instances([index])["u"][0]
    s = np.sin(np.pi * np.outer(np.linspace(0, 1, n), np.arange(1, p.modes + 1)))
    return [s @ c @ s.T for c in u_hat]


def test_displacement_is_the_series_and_clamped():
    p = problem("elasticity", modes=6)
    _, y = p.sample(1, 21, dtype=torch.float64)
    np.testing.assert_allclose(y[0, 0], displacement(p, 21)[0], atol=1e-14)
    ring = torch.cat([y[..., 0, :], y[..., -1, :], y[..., :, 0], y[..., :, -1]])
    assert (ring == 0).all()


def test_finite_differences_of_the_displacement_give_the_force():
    """f1 = −(λ+2μ)u1_xx − μ u1_yy − (λ+μ)u2_xy and f2 with x, y exchanged, by second-order differences."""
    p = problem("elasticity", modes=4)
    lam, mu = 0.3 / (1.3 * 0.4), 1 / 2.6  # E = 1, ν = 0.3, plane strain
    np.testing.assert_allclose(p.lame, (lam, mu), rtol=1e-14)
    errors = []
    for n in (41, 81, 161):
        h = 1 / (n - 1)
        u1, u2 = displacement(p, n)
        c = slice(1, -1)
        xx = [(u[2:, c] - 2 * u[c, c] + u[:-2, c]) / h**2 for u in (u1, u2)]
        yy = [(u[c, 2:] - 2 * u[c, c] + u[c, :-2]) / h**2 for u in (u1, u2)]
        xy = [(u[2:, 2:] - u[2:, :-2] - u[:-2, 2:] + u[:-2, :-2]) / (4 * h**2) for u in (u1, u2)]
        f1 = -(lam + 2 * mu) * xx[0] - mu * yy[0] - (lam + mu) * xy[1]
        f2 = -mu * xx[1] - (lam + 2 * mu) * yy[1] - (lam + mu) * xy[0]
        x, _ = p.sample(1, n, dtype=torch.float64)
        errors.append(max(np.abs(x[0, 0, c, c].numpy() - f1).max(), np.abs(x[0, 1, c, c].numpy() - f2).max()))
    rates = np.log2(np.array(errors[:-1]) / errors[1:])
    assert (np.abs(rates - 2) < 0.1).all()


def test_finite_elements_find_the_displacement():
    """scikit-fem, quadratic triangles on N×N squares, whose nodes are the endpoint grid of 2N+1: third order."""
    from skfem import Basis, ElementTriP2, ElementVector, MeshTri, asm, condense, solve
    from skfem.models.elasticity import lame_parameters, linear_elasticity

    p = problem("elasticity", modes=3)
    errors = []
    for cells in (4, 8, 16):
        n = 2 * cells + 1
        line = np.linspace(0, 1, cells + 1)
        basis = Basis(MeshTri.init_tensor(line, line), ElementVector(ElementTriP2()), intorder=5)
        x, y = p.sample(1, n, dtype=torch.float64)
        i, j = np.rint(basis.doflocs * (n - 1)).astype(int)  # grid indices of each degree of freedom's node
        component = np.empty(basis.N, int)  # which component a degree of freedom belongs to
        for dofs in (basis.nodal_dofs, basis.facet_dofs):
            component[dofs[0]], component[dofs[1]] = 0, 1
        force = x[0].numpy()[component, i, j]
        mass = basis_mass(basis)
        stiffness = asm(linear_elasticity(*lame_parameters(1.0, 0.3)), basis)
        u = solve(*condense(stiffness, mass @ force, D=basis.get_dofs()))
        first = component == 0
        errors.append(np.abs(u[first] - y[0, 0].numpy()[i[first], j[first]]).max() / float(y.abs().max()))
    rates = np.log2(np.array(errors[:-1]) / errors[1:])
    assert rates.min() > 2.7
    assert errors[-1] < 1e-3


def basis_mass(basis):
    from skfem import BilinearForm, asm
    from skfem.helpers import dot

    return asm(BilinearForm(lambda u, v, _: dot(u, v)), basis)


@pytest.mark.parametrize("placement", ["cell", "interior"])
def test_other_placements_see_the_same_force(placement):
    """Cell centres (2j+1)/(2n) are the odd nodes of the endpoint grid of 2n+1, interior nodes the inner ones of n+2."""
    p, q = problem("elasticity", modes=7), problem("elasticity", modes=7, placement=placement)
    if placement == "cell":
        (x, y), (ex, ey), cut = (
            q.sample(2, 8, dtype=torch.float64),
            p.sample(2, 17, dtype=torch.float64),
            slice(1, None, 2),
        )
    else:
        (x, y), (ex, ey), cut = q.sample(2, 8, dtype=torch.float64), p.sample(2, 10, dtype=torch.float64), slice(1, -1)
    assert (x - ex[..., cut, cut]).abs().max() < 1e-12
    assert (y - ey[..., cut, cut]).abs().max() < 1e-14
