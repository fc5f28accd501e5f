"""
The padded FNO
==============

Most FNOs in the wild pad their fields by a few samples before the FFT. Samples, not lengths: on a grid four times as
fine the same pad is a quarter as long, and the model sees another domain. This one is a plain ``nn.Module`` of
``torch.fft`` calls that quadnorm has never heard of.
"""

import matplotlib.pyplot as plt
import torch
from torch import nn
from torch.nn import functional as F

import quadnorm as qn
from quadnorm.problems import problem

SAMPLES, EPOCHS = 96, 16
TRAIN, TEST, PAD = 33, [33, 65, 129], 9


class Spectral(nn.Module):
    """The usual two-corner spectral convolution."""

    def __init__(self, channels, modes):
        super().__init__()
        self.modes = modes
        shape = (channels, channels, modes, modes)
        self.low, self.high = (nn.Parameter(torch.rand(shape, dtype=torch.cfloat) / channels**2) for _ in range(2))

    def forward(self, x):
        m, spectrum = self.modes, torch.fft.rfft2(x)
        out = torch.zeros_like(spectrum)
        out[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, :m, :m], self.low)
        out[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, -m:, :m], self.high)
        return torch.fft.irfft2(out, s=x.shape[-2:])


class PaddedFNO(nn.Module):
    """Coordinates, padding, three layers with InstanceNorm, a pointwise head."""

    def __init__(self, width=16, modes=8):
        super().__init__()
        self.lift, self.norm = nn.Conv2d(3, width, 1), nn.InstanceNorm2d(width)
        self.spectral = nn.ModuleList(Spectral(width, modes) for _ in range(3))
        self.skip = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(3))
        self.head = nn.Sequential(nn.Conv2d(width, 48, 1), nn.GELU(), nn.Conv2d(48, 1, 1))

    def forward(self, x):
        b, _, h, w = x.shape
        rows = torch.linspace(0, 1, h)[:, None].expand(b, 1, h, w)
        columns = torch.linspace(0, 1, w).expand(b, 1, h, w)
        v = F.pad(self.lift(torch.cat([x, rows, columns], 1)), [0, PAD, 0, PAD])
        for spectral, skip in zip(self.spectral, self.skip, strict=True):
            v = F.gelu(self.norm(spectral(v)) + skip(v))
        return self.head(v[..., :h, :w])


def error(prediction, target):
    """Relative L² error of every sample."""
    return (prediction - target).flatten(1).norm(dim=1) / target.flatten(1).norm(dim=1)


torch.manual_seed(0)
poisson = problem("poisson")
x, y = poisson.sample(range(SAMPLES), resolution=TRAIN)
scale = y.std()
model = PaddedFNO()
optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, EPOCHS)
for _ in range(EPOCHS):
    for batch in torch.randperm(SAMPLES).split(16):
        loss = error(model(x[batch]) * scale, y[batch]).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    schedule.step()

# %%
# Padding, FFT and norm are seen as the calls that they are. ``anchor`` pads by the same length in space; for
# ``extend`` nothing of the new grid enters a sum at all.

ways = {
    "as trained": model.eval(),
    "anchored": qn.anchor(model, TRAIN, "endpoint"),
    "extended": qn.extend(model, TRAIN, "endpoint"),
    "run at the training grid": qn.at_native(model, TRAIN, "endpoint"),
}
with torch.no_grad():
    pairs = {n: poisson.sample(range(5000, 5008), resolution=n) for n in TEST}
    curves = {name: [float(100 * error(f(a) * scale, u).mean()) for a, u in pairs.values()] for name, f in ways.items()}
for name, values in curves.items():
    print(f"{name:24s}" + "".join(f"{v:9.2f} %" for v in values))

fig, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
for (name, values), mark in zip(curves.items(), "osd^", strict=True):
    axis.plot(TEST, values, mark + "-", label=name)
axis.set(xscale="log", xticks=TEST, xticklabels=TEST, ylim=0, xlabel="samples per axis", ylabel="relative L² error [%]")
axis.minorticks_off()
axis.legend()
plt.show()
