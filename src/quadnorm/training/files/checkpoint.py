"""Checkpoints: one safetensors file that also holds the JSON, so that one rename puts a complete file in place.

The JSON begins with a hash of all other bytes of the file, header and tensors: a single changed bit is noticed.
Reading one never runs code: tensors come from safetensors, everything else from JSON, and both are checked.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from quadnorm._files import DamagedError, content_hash, read_bytes, write_atomic
from quadnorm._foreign import parsing

FORMAT, VERSION = "quadnorm-checkpoint", 2
_BLANK = "0" * 40
_SEAL = re.compile(rb'\{\\"digest\\": \\"([0-9a-f]{40})\\"')  # as the JSON in the file's JSON header has it


def write_checkpoint(path: Path, tensors: Mapping[str, Tensor], info: Mapping[str, Any]) -> None:
    """Write named tensors of any dtype and JSON values to ``path``, atomically."""
    from safetensors.torch import save

    # Copies, because safetensors refuses tensors that share memory (tied weights, views).
    plain = {k: _real(t.detach()).cpu().contiguous().clone() for k, t in tensors.items()}
    text = json.dumps(
        {
            "digest": _BLANK,
            "format": FORMAT,
            "version": VERSION,
            "complex": sorted(k for k, t in tensors.items() if t.is_complex()),
            "info": dict(info),
        },
        allow_nan=False,
    )
    data = save(plain, metadata={"quadnorm": text})
    seal = _SEAL.search(data)
    assert seal is not None
    write_atomic(path, data[: seal.start(1)] + content_hash(data).encode() + data[seal.end(1) :], "the checkpoint")


def read_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and JSON values of a checkpoint.

    Raises a DamagedError (a ValueError) if a bit has changed, and a plain ValueError if the file is not a checkpoint.
    """
    from safetensors.torch import load

    try:
        data = read_bytes(path)
    except FileNotFoundError:
        raise FileNotFoundError(f"no checkpoint {path}") from None
    header = _header(path, data)
    with parsing(path, "its tensors cannot be read", DamagedError):
        tensors = load(data)
    for name in header["complex"]:
        if name not in tensors or tensors[name].shape[-1:] != (2,) or not tensors[name].is_floating_point():
            raise DamagedError(path, f"{name!r} should hold complex numbers")
        tensors[name] = torch.view_as_complex(tensors[name])
    return tensors, header["info"]


def _header(path: Path, data: bytes) -> dict[str, Any]:
    """The JSON of a checkpoint, after the hash has been compared."""
    end = 8 + int.from_bytes(data[:8], "little")
    if len(data) < 8 or end > len(data):
        raise _foreign(path, data)
    seal = _SEAL.search(data, 8, end)
    if seal is None:
        raise _foreign(path, data[8:end])
    if content_hash(data[: seal.start(1)] + _BLANK.encode() + data[seal.end(1) :]) != seal[1].decode():
        raise DamagedError(path, "its checksum does not agree with its contents")
    with parsing(path, "its metadata are not JSON", DamagedError):
        header = json.loads(json.loads(data[8:end])["__metadata__"]["quadnorm"])
    kinds = {"format": str, "version": int, "complex": list, "info": dict}
    if not isinstance(header, dict) or any(not isinstance(header.get(k), kind) for k, kind in kinds.items()):
        raise DamagedError(path, "its metadata are incomplete")
    if header["format"] != FORMAT or header["version"] != VERSION:
        raise ValueError(
            f"{path} has format {header['format']} {header['version']}; "
            f"this version of quadnorm reads {FORMAT} {VERSION}"
        )
    return header


def _foreign(path: Path, data: bytes) -> ValueError:
    """The error for a file that is not a checkpoint of ours; says what it is, as far as its bytes show."""
    if data[:4] == b"PK\x03\x04":
        return ValueError(
            f"{path} is a PyTorch file (.pt), not a checkpoint of quadnorm; build its model in Python and use "
            f"quadnorm.anchor or quadnorm.audit on it"
        )
    if FORMAT.encode() in data:
        return DamagedError(path, f"it has no checksum, or was written by a version before format {VERSION}")
    if data[:1] == b"{" and b"data_offsets" in data:
        return ValueError(f"{path} holds tensors but is not a checkpoint of quadnorm: it has no 'quadnorm' metadata")
    return DamagedError(path, "it is not a checkpoint of quadnorm, or is cut short")


def _real(t: Tensor) -> Tensor:
    return torch.view_as_real(t.resolve_conj()) if t.is_complex() else t


def tensors_hash(tensors: Mapping[str, Tensor]) -> str:
    """A hash of names, dtypes, shapes and values; equal for equal weights, whenever they were written.

    >>> one, same, other = {"w": torch.ones(2)}, {"w": torch.ones(2)}, {"w": torch.zeros(2)}
    >>> tensors_hash(one) == tensors_hash(same), tensors_hash(one) == tensors_hash(other)
    (True, False)
    """
    code = hashlib.blake2b(digest_size=20)
    for name in sorted(tensors):
        t = _real(tensors[name].detach()).cpu().contiguous()
        code.update(f"{name} {t.dtype} {tuple(t.shape)}\n".encode())
        code.update(t.reshape(-1).view(torch.uint8).numpy().data)
    return code.hexdigest()
