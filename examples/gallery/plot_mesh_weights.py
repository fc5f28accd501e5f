"""
Weights of meshes
=================

Vertices of a refined mesh crowd in one corner. ``lumped_weights`` is what each vertex stands for (the integral of its
basis function), ``cell_weights`` the area of each cell. Both take arrays, or a scikit-fem mesh as it is.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from skfem import MeshTri

import quadnorm as qn

mesh = MeshTri.init_tensor(np.linspace(0, 1, 6), np.linspace(0, 1, 6))
for radius in (0.8, 0.5, 0.3, 0.15):  # refine around the origin
    centres = mesh.p[:, mesh.t].mean(axis=1)
    mesh = mesh.refined(np.flatnonzero(np.hypot(*centres) < radius))

vertices, areas = qn.lumped_weights(mesh), qn.cell_weights(mesh)
f = np.exp(-mesh.p.sum(axis=0))  # its integral over the unit square is (1 − 1/e)²
print(f"{mesh.p.shape[1]} vertices, weights add up to {vertices.sum():.6f}")
print(f"mean by counting vertices {f.mean():.4f}")
print(f"mean by weights           {float((vertices.numpy() * f).sum()):.4f}")
print(f"exact                     {(1 - np.exp(-1)) ** 2:.4f}")

# %%
# A norm takes them as ``weights=``: any positive scale will do.

x = torch.from_numpy(f)[None, None]  # (B, C, vertices)
norm = qn.QuadNorm(1, affine=False)
weighted = norm(x, weights=vertices)
counted = (x - x.mean()) / x.std(correction=0)

fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
picture = left.tripcolor(*mesh.p, mesh.t.T, facecolors=areas.numpy() * len(areas), edgecolors="w", linewidth=0.2)
left.set(title="cell area · number of cells", aspect="equal")
fig.colorbar(picture, ax=left, shrink=0.8)
order = np.argsort(f)
right.plot(f[order], weighted[0, 0][order], label="normalised by weights")
right.plot(f[order], counted[0, 0][order], "--", label="normalised by counting vertices")
right.set(xlabel="field", ylabel="normalised field")
right.legend()
plt.show()
