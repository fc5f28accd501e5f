"""
The ways to another grid
========================

``transfer`` takes a trained model to another grid, without training it again, and the three ways that it is made of do
so each by itself. They differ in where sums are taken and in what happens between the nodes of the training grid.
"""

import matplotlib.pyplot as plt
import torch

import quadnorm as qn
from quadnorm.operators import FNO
from quadnorm.problems import problem

SAMPLES, EPOCHS = 128, 20
TRAIN, TEST = 17, [17, 33, 65, 129]

torch.manual_seed(0)
poisson = problem("poisson")
x, y = poisson.sample(range(SAMPLES), resolution=TRAIN)
scale = y.std()
model = FNO(width=16, modes=6, layers=3, norm="layer")
optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)


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
# ``anchor`` sums on the new grid with the training grid's measure, ``extend`` keeps the sums of the training grid and
# evaluates the network at the new nodes, ``at_native`` runs at the training grid and interpolates what comes out.
# ``transfer`` takes as much of each as some pairs at the training grid support.

a, u = poisson.sample(range(4000, 4016), resolution=TRAIN)
ways = {
    "as trained": model.eval(),
    "transferred": qn.transfer(model.eval(), TRAIN, "endpoint", data=(a, u / scale)),
    "anchored": qn.anchor(model, TRAIN, "endpoint"),
    "extended": qn.extend(model, TRAIN, "endpoint"),
    "run at the training grid": qn.at_native(model, TRAIN, "endpoint"),
}
curves = {name: [] for name in ways}
with torch.no_grad():
    for n in TEST:
        a, u = poisson.sample(range(5000, 5008), resolution=n)
        for name, way in ways.items():
            curves[name].append(float(100 * error(way(a) * scale, u).mean()))
    gaps = {name: (way(a) * scale - u)[0, 0] for name, way in ways.items()}

# %%
# All five agree at the training grid. Elsewhere the model as trained meets sums that it has never seen.

fig = plt.figure(figsize=(9.5, 4.6), layout="constrained")
left, right = fig.subfigures(1, 2)
axis = left.subplots()
for (name, values), mark in zip(curves.items(), "osd^v", strict=True):
    axis.plot(TEST, values, mark + "-", label=name, markersize=5)
axis.set(xscale="log", xticks=TEST, xticklabels=TEST, ylim=0, xlabel="samples per axis", ylabel="relative L² error [%]")
axis.minorticks_off()
axis.legend()
limit = max(float(g.abs().max()) for g in gaps.values())
right.suptitle(f"error at {TEST[-1]}²", fontsize=10)
for axis, (name, gap) in zip(right.subplots(2, 2).flat, list(gaps.items())[:4], strict=True):
    image = axis.imshow(gap.T, origin="lower", cmap="RdBu_r", vmin=-limit, vmax=limit)
    axis.set_title(name, fontsize=9)
    axis.set_axis_off()
right.colorbar(image, ax=right.axes, shrink=0.7)
plt.show()
