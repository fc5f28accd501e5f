"""
Train at 33², look at 257²
==========================

A small FNO with LayerNorm learns Poisson's equation from 33 × 33 samples. On 257 × 257 samples of the same instances
it is worse, although the problem is the same; anchored, it is not.
"""

import matplotlib.pyplot as plt
import torch

import quadnorm as qn
from quadnorm.operators import FNO
from quadnorm.problems import problem

SAMPLES, EPOCHS = 128, 20

torch.manual_seed(0)
poisson = problem("poisson")
x, y = poisson.sample(range(SAMPLES), resolution=33)
scale = y.std()
model = FNO(width=16, modes=8, layers=3, norm="layer")
optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3)


def error(prediction, target):
    """Relative L² error of every sample."""
    return (prediction - target).flatten(1).norm(dim=1) / target.flatten(1).norm(dim=1)


for _ in range(EPOCHS):
    for batch in torch.randperm(SAMPLES).split(16):
        loss = error(model(x[batch]) * scale, y[batch]).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

# %%
# Nothing is trained again: ``qn.anchor`` returns a copy whose sums keep the measure of the training grid.

anchored = qn.anchor(model.eval(), 33, "endpoint")
grids = [33, 65, 129, 257]
curves = {"as trained": model, "anchored": anchored}
fig, (left, *rest) = plt.subplots(1, 4, figsize=(11, 3), layout="constrained")
with torch.no_grad():
    for (name, f), mark in zip(curves.items(), "os", strict=True):
        values = []
        for n in grids:
            a, u = poisson.sample(range(5000, 5008), resolution=n)
            values.append(100 * error(f(a) * scale, u).mean())
        left.plot(grids, values, mark + "-", label=name)
    for axis, (title, p) in zip(
        rest, {"truth": u, "as trained": model(a) * scale, "anchored": anchored(a) * scale}.items(), strict=True
    ):
        image = axis.imshow((p - u)[0, 0] if title != "truth" else u[0, 0], cmap="RdBu_r")
        axis.set_title(title if title == "truth" else f"{title}: error at 257²", fontsize=9)
        axis.set_axis_off()
        fig.colorbar(image, ax=axis, shrink=0.7)
left.set(
    xscale="log", xticks=grids, xticklabels=grids, xlabel="samples per axis", ylabel="relative L² error [%]", ylim=0
)
left.minorticks_off()
left.legend()
plt.show()
