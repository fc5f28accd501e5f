"""
A model on latitude and longitude
=================================

The same FNO twice, once with plain averages and once with areas of the sphere in its norms and Fourier sums, on the
same field at four resolutions. Untrained: what moves here moves with the grid alone.
"""

import matplotlib.pyplot as plt
import torch

import quadnorm as qn
from quadnorm.operators import FNO

SIZES = [(19, 36), (37, 72), (73, 144), (145, 288)]


def field(shape):
    """A smooth field on the sphere, poles included."""
    latitude = torch.linspace(-90, 90, shape[0]).deg2rad()[:, None]
    longitude = (torch.arange(shape[1]) * (360 / shape[1])).deg2rad()
    return (latitude.sin() ** 3 + latitude.cos() ** 2 * torch.cos(2 * longitude))[None, None]


def model(norm, measure):
    """An FNO whose longitude coordinate, which jumps at 360°, is switched off."""
    torch.manual_seed(0)
    fno = FNO(width=8, modes=6, layers=2, norm=norm, measure=measure).eval()
    with torch.no_grad():
        fno.lift.weight[:, -1] = 0
    return fno


models = {
    "counting, LayerNorm": model("layer", "counting"),
    "areas, QuadNorm": model("quad", qn.LatLon("equiangular")),
}

# %%
# How far the output at a coarse grid lies from the output at the finest one, at their common samples.

area = qn.LatLon("equiangular")
distances = {}
with torch.no_grad():
    for name, f in models.items():
        finest = f(field(SIZES[-1]))
        distances[name] = []
        for k, shape in enumerate(SIZES[:-1]):
            step = 2 ** (len(SIZES) - 1 - k)
            gap, whole = f(field(shape)) - finest[..., ::step, ::step], finest[..., ::step, ::step]
            w = area.weights(shape)
            distances[name].append(float(((gap**2 * w).sum() / (whole**2 * w).sum()).sqrt()))

fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.2), layout="constrained", width_ratios=(1, 1.3))
for (name, values), mark in zip(distances.items(), "os", strict=True):
    left.loglog([s[0] for s in SIZES[:-1]], values, mark + "-", label=name)
left.set(xlabel="latitudes", ylabel="relative distance from the finest", xticks=[19, 37, 73], xticklabels=[19, 37, 73])
left.minorticks_off()
left.legend()
image = right.imshow(finest[0, 0], extent=(0, 360, -90, 90), aspect="auto", cmap="RdBu_r", origin="lower")
right.set(xlabel="longitude", ylabel="latitude", title="output with areas, finest grid")
fig.colorbar(image, ax=right)
plt.show()
