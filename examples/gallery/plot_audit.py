"""
Which module leaks the grid?
============================

``audit`` runs a model on the same continuous input at several resolutions and measures, module by module, what a
change of grid does: what the module introduces itself, and what the whole model would do if only this module were left
as it is.
"""

import matplotlib.pyplot as plt
import torch

import quadnorm as qn
from quadnorm.operators import FNO

torch.manual_seed(0)
model = FNO(width=12, modes=6, layers=3, norm="layer").eval()


def field(n):
    """A smooth input on n × n samples that include the boundary."""
    r = torch.linspace(0, 1, n)
    return (torch.sin(3 * r)[:, None] * torch.exp(r))[None, None]


result = qn.audit(model, field, [17, 33, 65], placement="endpoint")
print(result)

# %%
# The same as a picture. ``result.html("audit.html")`` writes a page, ``result.to_frame()`` gives a pandas table.

rows = [r for r in result.rows if r.alone is not None]
fig, axis = plt.subplots(figsize=(7, 0.5 + 0.32 * len(rows)), layout="constrained")
axis.barh([f"{r.name or 'model'} ({r.kind})" for r in rows], [100 * r.introduced for r in rows], color="tab:orange")
axis.invert_yaxis()
axis.set(xlabel="introduced by the module itself at 65², relative to its output [%]")
plt.show()
