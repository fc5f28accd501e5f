"""
Masked fields
=============

Samples on land hold no sea temperature. A mask takes them out of the statistics; the fill value behind it, even NaN,
never enters.
"""

import matplotlib.pyplot as plt
import torch

import quadnorm as qn

n = 65
r = torch.linspace(0, 1, n)
sea = torch.sin(4 * r)[:, None] + torch.cos(3 * r)
land = (r[:, None] - 0.6) ** 2 + (r - 0.4) ** 2 < 0.06
field = sea.masked_fill(land, float("nan"))[None, None]  # (B, C, H, W)

norm = qn.QuadNorm(1, affine=False)
masked = norm(field, mask=~land)
whole = norm(sea[None, None].masked_fill(land, -9.0))  # what a fill value does to the statistics

# %%
# The mask multiplies the layer's measure: quadrature weights stay what they are on the samples that are there.

fig, axes = plt.subplots(1, 3, figsize=(9.5, 3), layout="constrained")
for axis, (title, values) in zip(
    axes, {"field": field, "normalised, masked": masked, "normalised, fill value counted": whole}.items(), strict=True
):
    image = axis.imshow(values[0, 0].masked_fill(land, float("nan")), cmap="RdBu_r")
    axis.set_title(title, fontsize=9)
    axis.set_axis_off()
    fig.colorbar(image, ax=axis, shrink=0.8)
plt.show()
