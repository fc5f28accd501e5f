"""
Control volumes of scattered points
===================================

Points crowd where someone needed them. Their Voronoi cells say how much of the domain each of them stands for.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial import Voronoi, voronoi_plot_2d

import quadnorm as qn

rng = np.random.default_rng(0)
points = np.concatenate([rng.random((150, 2)), 0.5 + 0.08 * rng.standard_normal((150, 2))]).clip(0.001, 0.999)
volumes = qn.voronoi_weights(points, bounds=((0, 1), (0, 1)))
f = np.exp(-20 * ((points - 0.5) ** 2).sum(1))  # a bump where the points crowd

# %%
# The bump's mean: counting points weighs the crowd, volumes weigh the square.

print(f"mean by counting points  {f.mean():.4f}")
print(f"mean by control volumes  {float((volumes.numpy() * f).sum()):.4f}")
print(f"exact                    {np.pi / 20:.4f}")

fig, axis = plt.subplots(figsize=(5.4, 4.6), layout="constrained")
mirrored = [
    points,
    *(points * s + o for s, o in (((-1, 1), (0, 0)), ((1, -1), (0, 0)), ((-1, 1), (2, 0)), ((1, -1), (0, 2)))),
]
voronoi_plot_2d(Voronoi(np.concatenate(mirrored)), axis, show_points=False, show_vertices=False, line_colors="0.8")
dots = axis.scatter(*points.T, c=volumes.numpy() * len(points), cmap="viridis", s=14, zorder=3)
axis.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
fig.colorbar(dots, label="volume · number of points")
plt.show()
