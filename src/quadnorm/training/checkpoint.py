"""Checkpoints: one safetensors file with its JSON inside, so that a single rename makes it valid as a whole.

Reading one never runs code: tensors come from safetensors, everything else from JSON, and both are checked.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from quadnorm.training.atomic import explained, write_atomic

FORMAT, VERSION = "quadnorm-checkpoint", 1


def write_checkpoint(path: Path, tensors: Mapping[str, Tensor], info: Mapping[str, Any]) -> None:
    """Write named tensors of any dtype and JSON values to ``path``, atomically."""
    from safetensors.torch import save

    # Copies, because safetensors refuses tensors that share memory (tied weights, views).
    plain = {k: _real(t.detach()).cpu().contiguous().clone() for k, t in tensors.items()}
    text = json.dumps(
        {
            "format": FORMAT,
            "version": VERSION,
            "complex": sorted(k for k, t in tensors.items() if t.is_complex()),
            "digest": _digest(plain),
            "info": dict(info),
        },
        allow_nan=False,
    )
    write_atomic(path, save(plain, metadata={"quadnorm": text}), "the checkpoint")


def read_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and JSON values of a checkpoint; a ValueError if the file is damaged or something else."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {k: file.get_tensor(k).clone() for k in file.keys()}  # noqa: SIM118 (it is no mapping)
    except FileNotFoundError:
        raise FileNotFoundError(f"no checkpoint {path}") from None
    except OSError as error:
        raise explained(error, f"cannot read the checkpoint {path}") from error
    except (SafetensorError, ValueError, KeyError, RuntimeError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"{path} is not a checkpoint, or is damaged: {first}") from error
    header = _header(path, metadata.get("quadnorm"))
    if header["digest"] != _digest(tensors):
        raise ValueError(f"{path} is damaged: its tensors are not the ones that were written")
    for name in header["complex"]:
        if name not in tensors or tensors[name].shape[-1:] != (2,) or not tensors[name].is_floating_point():
            raise ValueError(f"{path} is damaged: {name!r} should hold complex numbers")
        tensors[name] = torch.view_as_complex(tensors[name])
    return tensors, header["info"]


def _header(path: Path, text: str | None) -> dict[str, Any]:
    if text is None:
        raise ValueError(f"{path} holds tensors but is not a checkpoint of quadnorm: it has no 'quadnorm' metadata")
    try:
        header = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{path} is damaged: its metadata are not JSON ({error})") from None
    kinds = {"format": str, "version": int, "complex": list, "digest": str, "info": dict}
    if not isinstance(header, dict) or any(not isinstance(header.get(k), kind) for k, kind in kinds.items()):
        raise ValueError(f"{path} is not a checkpoint of quadnorm, or is damaged: its metadata are incomplete")
    if header["format"] != FORMAT or header["version"] != VERSION:
        raise ValueError(
            f"{path} has format {header['format']} {header['version']}; "
            f"this version of quadnorm reads {FORMAT} {VERSION}"
        )
    return header


def _real(t: Tensor) -> Tensor:
    return torch.view_as_real(t.resolve_conj()) if t.is_complex() else t


def _digest(tensors: Mapping[str, Tensor]) -> str:
    """A checksum against damage, not against forgery: CRC-32 costs a quarter of a cryptographic hash, every epoch."""
    code = 0
    for name in sorted(tensors):
        t = tensors[name]
        code = zlib.crc32(f"{name} {t.dtype} {tuple(t.shape)}\n".encode(), code)
        code = zlib.crc32(t.reshape(-1).view(torch.uint8).numpy().data, code)
    return f"{code:08x}"
