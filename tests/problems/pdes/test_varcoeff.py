"""Variable-coefficient diffusion: the law of a, second order in the fine grid, an independent solve."""

from itertools import pairwise

import numpy as np
import torch
from skfem import Basis, BilinearForm, ElementQuad2, LinearForm, MeshQuad, asm, condense, solve
from skfem.helpers import dot, grad

from quadnorm.problems import problem


def test_law_of_the_coefficient():
    """E ∫ (log a)² = σ², and ∫ log a = 0 in every sample: the midpoint rule is exact for these cosines."""
    for sigma in (1.0, 0.5):
        x, _ = problem("varcoeff", fine=17, sigma=sigma, modes=20, placement="cell").sample(
            200, 17, dtype=torch.float64
        )
        g = x.log()
        assert g.mean((1, 2, 3)).abs().max() < 1e-12
        square = (g**2).mean((1, 2, 3))
        assert abs(square.mean() - sigma**2) < 5 * square.std() / np.sqrt(200)


def test_boundary_residual_and_iterations():
    p = problem("varcoeff", fine=65)
    drawn = p.instances(4)
    assert drawn["residual"].max() < 5e-12
    assert drawn["iterations"].max() <= 25
    _, y = p.sample(4, 33)
    assert (y[..., [0, -1], :] == 0).all()
    assert (y[..., [0, -1]] == 0).all()
    assert (y[..., 1:-1, 1:-1] > 0).all()


def test_second_order_in_the_fine_spacing():
    """The same instances solved on 65, 129, 257 nodes, seen on 40 nodes that none of them contains: ratios near 4."""
    u = [problem("varcoeff", fine=n).sample(4, 40, dtype=torch.float64)[1] for n in (33, 65, 129, 257)]
    gaps = [float(torch.linalg.norm(a - b) / torch.linalg.norm(u[-1])) for a, b in pairwise(u)]
    rates = np.log2(np.array(gaps[:-1]) / gaps[1:])
    assert (np.abs(rates - 2) < 0.35).all()
    assert gaps[-1] / 3 < 3e-4  # what 257 nodes are off by, were they to go on at second order


def test_finite_elements_agree():
    """scikit-fem, biquadratic squares, the coefficient summed from its series at the quadrature points."""
    p = problem("varcoeff", modes=8)
    g = p.instances([1])["g"][0]
    root = np.where(np.arange(8) == 0, 1.0, np.sqrt(2))

    def a(points):
        cx, cy = (root[:, None, None] * np.cos(np.pi * np.multiply.outer(np.arange(8), t)) for t in points)
        return np.exp(np.einsum("kl,kep,lep->ep", g, cx, cy))

    line = np.linspace(0, 1, 33)
    basis = Basis(MeshQuad.init_tensor(line, line), ElementQuad2(), intorder=6)
    stiffness = asm(BilinearForm(lambda u, v, w: a(w.x) * dot(grad(u), grad(v))), basis)
    u = solve(*condense(stiffness, asm(LinearForm(lambda v, w: v), basis), D=basis.get_dofs()))
    _, y = p.sample([1], 65, dtype=torch.float64)
    i, j = np.rint(basis.doflocs * 64).astype(int)
    assert np.abs(u - y[0, 0].numpy()[i, j]).max() < 3e-4 * u.max()
