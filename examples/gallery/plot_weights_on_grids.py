"""
Weights on grids
================

The same 17 × 17 array means different things: where its samples lie decides what each of them weighs.
"""

import matplotlib.pyplot as plt
import torch

import quadnorm as qn

n = 17
crowded = (1 - torch.cos(torch.pi * torch.arange(n, dtype=torch.float64) / (n - 1))) / 2
measures = {
    "counting: what LayerNorm does": qn.Grid("counting"),
    "trapezoid: both ends included": qn.Grid("trapezoid"),
    "anchored at 5 × 5": qn.Anchored((5, 5)),
    "Simpson": qn.Grid("simpson"),
    "trapezoid × periodic": qn.Grid(("trapezoid", "periodic")),
    "nonuniform nodes": qn.Grid.from_coordinates(crowded, crowded),
}

# %%
# Every array sums to 1. Colours are relative to the equal weight 1/n².

fig, axes = plt.subplots(2, 3, figsize=(9, 6), layout="constrained")
for axis, (name, measure) in zip(axes.flat, measures.items(), strict=True):
    w = measure.weights((n, n)) * n**2
    image = axis.imshow(w, cmap="RdBu_r", vmin=0, vmax=2)
    axis.set_title(name, fontsize=9)
    axis.set_axis_off()
fig.colorbar(image, ax=axes, shrink=0.7, label="weight · n²")
plt.show()
