"""Models as other people write them, for ``examples/zoo.py``: (B, 1, n, n) → (B, 1, n, n), random weights.

None of them knows of quadnorm. Those of neuraloperator need ``pip install 'quadnorm[compat]'``, LocalNO also
``pip install --no-deps torch-harmonics==0.7.4``.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

WIDTH = 12


def neuralop(name: str, **options: Any) -> nn.Module:
    """A model of neuraloperator; some of them print their arguments."""
    from neuralop import models

    usual = {"in_channels": 1, "out_channels": 1, "n_modes": (8, 8), "hidden_channels": WIDTH, "n_layers": 3}
    with contextlib.redirect_stdout(io.StringIO()):
        return getattr(models, name)(**{**usual, **options})


def uno() -> nn.Module:
    """U-shaped, with two inner grids."""
    from neuralop.models import UNO

    with contextlib.redirect_stdout(io.StringIO()):
        return UNO(
            in_channels=1,
            out_channels=1,
            hidden_channels=WIDTH,
            n_layers=3,
            uno_out_channels=[WIDTH] * 3,
            uno_n_modes=[[6, 6]] * 3,
            uno_scalings=[[0.5, 0.5], [1, 1], [2, 2]],
            norm="group_norm",
            channel_mlp_skip="linear",
        )


def codano() -> nn.Module:
    """Attention between variables, with its default padding."""
    from neuralop.models import CODANO

    return CODANO(
        output_variable_codimension=1,
        hidden_variable_codimension=4,
        lifting_channels=8,
        n_layers=2,
        n_heads=[2, 2],
        n_modes=[[8, 8], [8, 8]],
        attention_scaling_factors=[1, 1],
        per_layer_scaling_factors=[[1, 1], [1, 1]],
        use_positional_encoding=False,
        static_channel_dim=0,
        variable_ids=["a"],
        use_horizontal_skip_connection=False,
        enable_cls_token=False,
    )


def local_no(padding: str) -> nn.Module:
    """Integrals and differences over small neighbourhoods; needs torch-harmonics."""
    from neuralop.models.local_no import LocalNO

    return LocalNO(
        in_channels=1,
        out_channels=1,
        n_modes=(8, 8),
        hidden_channels=WIDTH,
        n_layers=3,
        default_in_shape=(33, 33),
        conv_padding_mode=padding,
    )


class Spectral(nn.Module):
    """The two-corner spectral convolution by ``torch.fft``."""

    def __init__(self, channels: int, modes: int) -> None:
        super().__init__()
        self.modes = modes
        shape = (channels, channels, modes, modes)
        self.low, self.high = (nn.Parameter(torch.randn(shape, dtype=torch.cfloat) / channels) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        m, spectrum = self.modes, torch.fft.rfft2(x)
        out = torch.zeros_like(spectrum)
        out[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, :m, :m], self.low)
        out[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, -m:, :m], self.high)
        return torch.fft.irfft2(out, s=(x.size(-2), x.size(-1)))


def with_coordinates(x: Tensor) -> Tensor:
    """Two channels ``linspace(0, 1, n)`` more."""
    n, m = x.shape[-2:]
    rows, columns = torch.meshgrid(torch.linspace(0, 1, n), torch.linspace(0, 1, m), indexing="ij")
    return torch.cat([x, torch.stack([rows, columns])[None].expand(x.shape[0], -1, -1, -1)], 1)


class ClassicFNO(nn.Module):
    """The most copied FNO there is: coordinates, ``torch.fft``, InstanceNorm, perhaps padding by samples."""

    def __init__(self, padding: int = 0) -> None:
        super().__init__()
        self.padding, self.lift, self.head = padding, nn.Conv2d(3, WIDTH, 1), nn.Conv2d(WIDTH, 1, 1)
        self.spectral = nn.ModuleList(Spectral(WIDTH, 6) for _ in range(3))
        self.skip = nn.ModuleList(nn.Conv2d(WIDTH, WIDTH, 1) for _ in range(3))
        self.norm = nn.InstanceNorm2d(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        n, m = x.shape[-2:]
        v = F.pad(self.lift(with_coordinates(x)), [0, self.padding, 0, self.padding])
        for spectral, skip in zip(self.spectral, self.skip, strict=True):
            v = F.gelu(self.norm(spectral(v)) + skip(v))
        y: Tensor = self.head(v[..., :n, :m])
        return y


class SqueezeExcite(nn.Module):
    """Gates from means over space, ``F.group_norm`` and ``torch.var_mean``."""

    def __init__(self) -> None:
        super().__init__()
        self.lift, self.gate, self.head = nn.Conv2d(3, WIDTH, 1), nn.Linear(WIDTH, WIDTH), nn.Conv2d(WIDTH, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        v = F.gelu(self.lift(with_coordinates(x)))
        v = F.group_norm(v * torch.sigmoid(self.gate(v.mean((-2, -1))))[..., None, None], 3)
        var, mean = torch.var_mean(v, (2, 3), keepdim=True)
        y: Tensor = self.head(F.gelu((v - mean) / (var + 1e-3).sqrt() + mean))
        return y


class Attention(nn.Module):
    """Tokens are the samples; ``galerkin``: KᵀV/n with normalised keys and values, else softmax; then an MLP."""

    def __init__(self, galerkin: bool, width: int = 2 * WIDTH, layers: int = 3) -> None:
        super().__init__()
        self.galerkin, self.width, self.lift, self.head = galerkin, width, nn.Linear(3, width), nn.Linear(width, 1)
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)) for _ in range(layers)
        )

    def forward(self, x: Tensor) -> Tensor:
        v = self.lift(with_coordinates(x).flatten(2).mT)
        for layer, mlp in zip(self.qkv, self.mlp, strict=True):
            q, k, u = layer(F.layer_norm(v, (self.width,))).chunk(3, -1)
            if self.galerkin:
                k, u = F.layer_norm(k, (self.width,)), F.layer_norm(u, (self.width,))
                v = v + q @ (k.mT @ u / k.shape[1])
            else:
                v = v + torch.softmax(q @ k.mT / self.width**0.5, -1) @ u
            v = v + mlp(F.layer_norm(v, (self.width,)))
        y: Tensor = self.head(v).mT.reshape(x.shape)
        return y


class UNet(nn.Module):
    """Kernels of 3×3 samples, one strided step down and up, GroupNorm."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.down = nn.Conv2d(1, WIDTH, 3, padding=1), nn.Conv2d(WIDTH, WIDTH, 3, 2, 1)
        self.middle, self.leave = nn.Conv2d(WIDTH, WIDTH, 3, padding=1), nn.Conv2d(2 * WIDTH, 1, 3, padding=1)
        self.norms = nn.ModuleList(nn.GroupNorm(3, WIDTH) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        a = F.gelu(self.norms[0](self.enter(x)))
        b = F.gelu(self.norms[1](self.down(a)))
        b = F.gelu(self.norms[2](self.middle(b)))
        b = F.interpolate(b, size=a.shape[-2:], mode="bilinear", align_corners=True)
        y: Tensor = self.leave(torch.cat([a, b], 1))
        return y


class VisionTransformer(nn.Module):
    """Patches of 3×3 samples and a learned table of positions."""

    def __init__(self) -> None:
        super().__init__()
        self.patch, self.place = nn.Conv2d(1, 36, 3, 3), nn.Parameter(0.02 * torch.randn(1, 121, 36))
        layer = nn.TransformerEncoderLayer(36, 4, 72, dropout=0.0, batch_first=True)
        self.body, self.back = nn.TransformerEncoder(layer, 2), nn.ConvTranspose2d(36, 1, 3, 3)

    def forward(self, x: Tensor) -> Tensor:
        p = self.patch(x)
        t = self.body(p.flatten(2).mT + self.place)
        y: Tensor = self.back(t.mT.reshape(p.shape))
        return y


MODELS: dict[str, Callable[[], nn.Module]] = {
    "neuraloperator FNO": lambda: neuralop("FNO", norm="instance_norm"),
    "neuraloperator FNO, domain padding": lambda: neuralop("FNO", norm="instance_norm", domain_padding=0.25),
    "TFNO, Tucker": lambda: neuralop("TFNO", factorization="tucker", rank=0.5, norm="group_norm"),
    "TFNO, CP": lambda: neuralop("TFNO", factorization="cp", rank=0.5, norm="group_norm"),
    "TFNO, tensor train": lambda: neuralop("TFNO", factorization="tt", rank=0.5, norm="group_norm"),
    "UNO": uno,
    "CODANO": codano,
    "LocalNO": lambda: local_no("periodic"),
    "LocalNO, padded by replication": lambda: local_no("replicate"),
    "FNO by torch.fft": ClassicFNO,
    "FNO by torch.fft, padded by 9": lambda: ClassicFNO(9),
    "squeeze and excite": SqueezeExcite,
    "Galerkin attention": lambda: Attention(True),
    "softmax attention": lambda: Attention(False),
    "U-Net": UNet,
    "vision transformer": VisionTransformer,
}
