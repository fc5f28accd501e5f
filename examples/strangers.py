"""Models as other people write them, for ``examples/zoo.py``: (B, 1, n, n) → (B, 1, n, n), random weights.

None of them knows of quadnorm. ``MODELS`` has those that the extra ``compat`` and this file bring (LocalNO needs
``pip install --no-deps torch-harmonics==0.7.4``), ``PACKAGED`` those of packages to be installed beside them.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import quadnorm as qn

WIDTH = 12
NATIVE = 33
WAYS = ("as trained", "anchored", "extended", "run at the training grid")


def smooth(n: int, periodic: bool = False) -> Tensor:
    """Three smooth fields at n samples per axis, (3, 1, n, n): endpoint-inclusive and not zero at the boundary, or
    periodic."""
    r = torch.arange(n, dtype=torch.float64) / (n if periodic else n - 1)
    waves = [(1.3, 0.4, 2.1, 0.9), (2.9, 1.0, 0.7, 0.2), (3.7, 2.5, 3.1, 1.4)]
    if periodic:
        whole = ((1, 1), (2, 1), (1, 3))
        waves = [(6.2831853 * k, b, 6.2831853 * m, d) for (k, m), (_, b, _, d) in zip(whole, waves, strict=True)]
    return torch.stack([torch.sin(a * r + b)[:, None] * torch.cos(c * r + d) for a, b, c, d in waves])[:, None].float()


def ways(model: nn.Module, native: int = NATIVE, placement: str = "endpoint") -> tuple[dict[str, Any], dict[str, str]]:
    """The model in every way that takes it, and why the others do not."""
    grid, example = (native, native), smooth(native, placement == "periodic")
    makers = {
        "anchored": lambda: qn.anchor(model, grid, placement, example=example),
        "extended": lambda: qn.extend(model, grid, placement, example=example),
        "run at the training grid": lambda: qn.at_native(model, grid, placement),
    }
    usable: dict[str, Any] = {"as trained": model}
    refused = {}
    for way, make in makers.items():
        try:
            usable[way] = make()
        except (ValueError, RuntimeError) as error:
            refused[way] = reason(error)
    return usable, refused


def reason(error: Exception) -> str:
    """An error's first line, without what announces a list below it."""
    first = (str(error) or type(error).__name__).splitlines()[0]
    return first.rpartition(";")[0] if first.endswith(":") else first


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


class Field(nn.Module):
    """A packaged model as a function of one field; ``forward`` says how it is called."""

    def __init__(self, inner: nn.Module, forward: Callable[[nn.Module, Tensor], Any]) -> None:
        super().__init__()
        self.inner, self.call = inner, forward

    def forward(self, x: Tensor) -> Any:
        return self.call(self.inner, x)


def well(name: str, **options: Any) -> nn.Module:
    """A benchmark model of the_well, on 32×32."""
    from the_well.benchmark import models

    usual = {"dim_in": 1, "dim_out": 1, "n_spatial_dims": 2, "spatial_resolution": (32, 32)}
    net = getattr(models, name)(**usual, **options)
    if name in ("AFNO", "AViT"):  # channels last
        return Field(net, lambda net, x: net(x.movedim(1, -1)).movedim(-1, 1))
    return net


def segmentation(name: str, encoder: str = "resnet18") -> nn.Module:
    """A network of segmentation-models-pytorch, without its trained weights."""
    import segmentation_models_pytorch as smp

    return getattr(smp, name)(encoder, encoder_weights=None, in_channels=1, classes=1)


def monai(name: str, **options: Any) -> nn.Module:
    """A network of MONAI in two dimensions."""
    from monai.networks import nets

    return getattr(nets, name)(**{"spatial_dims": 2, "in_channels": 1, "out_channels": 1, **options})


def diffusers(name: str) -> nn.Module:
    """A network of diffusers: a denoising U-Net at a fixed time, or an autoencoder."""
    import diffusers as package

    width = (32, 64)
    if name == "UNet2DModel":
        net = package.UNet2DModel(
            sample_size=32,
            in_channels=1,
            out_channels=1,
            block_out_channels=width,
            down_block_types=("DownBlock2D", "AttnDownBlock2D"),
            up_block_types=("AttnUpBlock2D", "UpBlock2D"),
            layers_per_block=1,
        )
        return Field(net, lambda net, x: net(x, 10).sample)
    net = getattr(package, name)(in_channels=1, out_channels=1, block_out_channels=width, **_blocks())
    return Field(net, lambda net, x: net(x).sample)


def _blocks() -> dict[str, Any]:
    return {"down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2}


def physicsnemo(name: str) -> nn.Module:
    """A model of PhysicsNeMo."""
    if name == "FNO":
        from physicsnemo.models.fno import FNO

        return FNO(1, 1, decoder_layer_size=32, dimension=2, latent_channels=WIDTH, num_fno_modes=8, padding=4)
    if name == "AFNO":
        from physicsnemo.models.afno import AFNO

        return AFNO([32, 32], 1, 1, patch_size=[4, 4], embed_dim=32, depth=2, num_blocks=4)
    from physicsnemo.models.pix2pix import Pix2Pix

    return Pix2Pix(1, 1, 2, conv_layer_size=16, n_downsampling=2, n_upsampling=2, n_blocks=2)


def pina() -> nn.Module:
    """PINA's FNO, channels last."""
    from pina.model import FNO

    net = FNO(nn.Linear(1, WIDTH), nn.Linear(WIDTH, 1), n_modes=8, dimensions=2, inner_size=WIDTH, n_layers=3)
    return Field(net, lambda net, x: net(x.movedim(1, -1)).movedim(-1, 1))


def x_unet() -> nn.Module:
    """Phil Wang's U-Net of ConvNeXt blocks."""
    from x_unet import XUnet

    return XUnet(dim=16, channels=1, out_dim=1, dim_mults=(1, 2), num_blocks_per_stage=(1, 1))


SEGMENTATION = ("Unet", "UnetPlusPlus", "FPN", "Linknet", "PSPNet", "DeepLabV3", "DeepLabV3Plus", "MAnet", "PAN")
SEGMENTATION = (*SEGMENTATION, "UPerNet", "Segformer")
PACKAGED: dict[str, Callable[[], nn.Module]] = {
    "the_well FNO": lambda: well("FNO", modes1=8, modes2=8, hidden_channels=16),
    "the_well TFNO": lambda: well("TFNO", modes1=8, modes2=8, hidden_channels=16),
    "the_well UNetClassic": lambda: well("UNetClassic", init_features=8),
    "the_well UNetConvNext": lambda: well("UNetConvNext", init_features=8, stages=3),
    "the_well AFNO": lambda: well("AFNO", hidden_dim=64, n_blocks=2, patch_size=4),
    "the_well AViT": lambda: well("AViT", hidden_dim=48, num_heads=4, processor_blocks=2),
    "the_well DilatedResNet": lambda: well("DilatedResNet", blocks=2, levels_per_block=3, hidden_dim=16),
    "the_well ReFNO": lambda: well("ReFNO", hidden_dim=16, blocks=2),
    "PhysicsNeMo FNO": lambda: physicsnemo("FNO"),
    "PhysicsNeMo AFNO": lambda: physicsnemo("AFNO"),
    "PhysicsNeMo Pix2Pix": lambda: physicsnemo("Pix2Pix"),
    "pina FNO": pina,
    "diffusers UNet2DModel": lambda: diffusers("UNet2DModel"),
    "diffusers AutoencoderKL": lambda: diffusers("AutoencoderKL"),
    "diffusers VQModel": lambda: diffusers("VQModel"),
    "x-unet": x_unet,
    "MONAI BasicUNet": lambda: monai("BasicUNet", features=(8, 8, 16, 32, 64, 8)),
    "MONAI UNet": lambda: monai("UNet", channels=(8, 16, 32), strides=(2, 2)),
    "MONAI AttentionUnet": lambda: monai("AttentionUnet", channels=(8, 16, 32), strides=(2, 2)),
    "MONAI SegResNet": lambda: monai("SegResNet", init_filters=8),
    "MONAI VNet": lambda: monai("VNet"),
    "MONAI UNETR": lambda: monai("UNETR", img_size=(32, 32), feature_size=8, hidden_size=48, mlp_dim=96, num_heads=4),
    "MONAI SwinUNETR": lambda: monai("SwinUNETR", feature_size=12),
    **{f"segmentation-models {name}": (lambda name=name: segmentation(name)) for name in SEGMENTATION},
    "segmentation-models Unet, MobileNetV2": lambda: segmentation("Unet", "mobilenet_v2"),
}
