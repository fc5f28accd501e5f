"""
The sphere in latitude and longitude
====================================

A 1° array has as many samples on the row beside the pole as on the equator. Equal weights count the poles about sixty
times too often; area weights do not.
"""

import matplotlib.pyplot as plt
import torch

import quadnorm as qn

shape = (61, 120)
lat = torch.linspace(90, -90, shape[0], dtype=torch.float64).deg2rad()
lon = torch.arange(shape[1], dtype=torch.float64) * (2 * torch.pi / shape[1])
temperature = 288 - 40 * torch.sin(lat)[:, None] ** 2 + 3 * torch.cos(lon)  # warm equator, cold poles
exact = 288 - 40 / 3  # the mean of sin² over the sphere is 1/3

area = qn.LatLon("equiangular")
print(f"mean by area weights   {float(area.integrate(temperature)) / area.total:.2f}")
print(f"mean by equal weights  {float(temperature.mean()):.2f}")
print(f"exact                  {exact:.2f}")

# %%
# The weights along a meridian, and the field.

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3), layout="constrained", width_ratios=(1, 2))
left.plot(area.weights(shape)[:, 0] * shape[0] * shape[1], lat.rad2deg(), label="area")
left.axvline(1, color="0.5", linestyle="--", label="equal")
left.set(xlabel="weight · number of samples", ylabel="latitude")
left.legend()
image = right.imshow(temperature, extent=(0, 360, -90, 90), aspect="auto", cmap="inferno")
right.set(xlabel="longitude")
fig.colorbar(image, label="temperature [K]")
plt.show()
