"""
neuraloperator's FNO
====================

The FNO of `neuraloperator <https://neuraloperator.github.io>`_, with its own training loop and nothing of ours inside.
Trained at 33², used at 129² in four ways. Needs ``pip install 'quadnorm[compat]'``.
"""

import matplotlib.pyplot as plt
import torch
from neuralop.models import FNO

import quadnorm as qn
from quadnorm.problems import problem

SAMPLES, EPOCHS = 128, 40
TRAIN, TEST = 33, [33, 65, 129]

torch.manual_seed(0)
poisson = problem("poisson")
x, y = poisson.sample(range(SAMPLES), resolution=TRAIN)
scale = y.std()
model = FNO(n_modes=(10, 10), in_channels=1, out_channels=1, hidden_channels=20, n_layers=2, norm="group_norm")
optimiser = torch.optim.AdamW(model.parameters(), lr=5e-3)


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
# One call per way; the report says what was done to which module, and how far each way drifts on a smooth input.

anchored = qn.anchor(model.eval(), TRAIN, "endpoint")
print(anchored.anchor_report)

# %%
ways = {
    "as trained": model,
    "anchored": anchored,
    "extended": qn.extend(model, TRAIN, "endpoint"),
    "run at the training grid": qn.at_native(model, TRAIN, "endpoint"),
}
with torch.no_grad():
    pairs = {n: poisson.sample(range(5000, 5008), resolution=n) for n in TEST}
    curves = {name: [float(100 * error(f(a) * scale, u).mean()) for a, u in pairs.values()] for name, f in ways.items()}

fig, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
width = 0.2
for k, (name, values) in enumerate(curves.items()):
    places = [i + (k - 1.5) * width for i in range(len(TEST))]
    bars = axis.bar(places, values, 0.9 * width, label=name)
    axis.bar_label(bars, [f"{v:.1f}" for v in values], fontsize=7)
axis.set_xticks(range(len(TEST)), [f"{n}²" for n in TEST])
axis.set(ylabel="relative L² error [%]", ylim=(0, 1.45 * max(map(max, curves.values()))))
axis.legend(ncols=2, fontsize=8, loc="upper center")
plt.show()
