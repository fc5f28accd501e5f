"""
The leak in one dimension
=========================

Average :math:`e^x` over [0, 1] from n samples that include both ends. Equal weights give every end as much as an
inner sample, a boundary mass of 1/n that moves with n. The trapezoid rule has none; the anchored measure keeps the
1/n₀ of one training grid, here 17 samples.
"""

import math

import matplotlib.pyplot as plt
import torch

import quadnorm as qn

TRAIN = 17
sizes = [5, 9, 17, 33, 65, 129, 257]
measures = {
    "equal weights": qn.Grid("counting"),
    "trapezoid": qn.Grid("trapezoid"),
    f"anchored at {TRAIN}": qn.Anchored((TRAIN,)),
}


def average(measure, n):
    """The average of e^x over n endpoint-inclusive samples."""
    return float(measure.integrate(torch.exp(torch.linspace(0, 1, n, dtype=torch.float64))))


# %%
# On the left the averages: equal weights move long after the other two have settled. On the right their distance from
# the limit: equal weights are of first order in h, the other two of second.

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
for (name, measure), mark in zip(measures.items(), "osd", strict=True):
    values = [average(measure, n) for n in sizes]
    limit = math.e - 1 if "anchored" not in name else average(measure, 2**15 + 1)
    left.plot(sizes, values, mark + "-", label=name)
    right.loglog(sizes, [max(abs(v - limit), 1e-12) for v in values], mark + "-", label=name)
left.axvline(TRAIN, color="0.8", zorder=0)
left.set(xscale="log", xlabel="samples n", ylabel="average of $e^x$")
right.set(xlabel="samples n", ylabel="distance from its limit")
left.legend()
plt.show()
