"""PyTorch names that are not public: all in one module, and a layer works without any of them."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import quadnorm as qn
from quadnorm import _torch

SOURCES = Path(qn.__file__).parent


def _path(node):
    """The dotted name of nested attributes."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [node.id, *reversed(names)] if isinstance(node, ast.Name) else []


def _private(tree):
    """Private parts of PyTorch's modules that a source imports or asks for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            parts = [[*(node.module or "").split("."), alias.name] for alias in node.names]
        elif isinstance(node, ast.Import):
            parts = [alias.name.split(".") for alias in node.names]
        else:
            parts = [_path(node)]
        for path in parts:
            if (path[:1] == ["torch"] and any(p.startswith("_") and not p.endswith("__") for p in path)) or path[
                :3
            ] == ["torch", "fx", "experimental"]:
                yield ".".join(path)


def test_private_names_are_asked_for_in_one_module():
    found = {}
    for source in SOURCES.rglob("*.py"):
        names = sorted(set(_private(ast.parse(source.read_text(encoding="utf-8")))))
        if names and source.name != "_torch.py":
            found[source.relative_to(SOURCES).as_posix()] = names
    assert found == {}


def test_all_of_them_are_there():
    names = (*_torch.ASKED, *_torch.NEEDED, *_torch.PARALLEL)
    assert len(set(names)) == len(names) == 50
    for path in names:
        _torch.named(path)
    assert _torch.missing() == ()


WITHOUT = """
import os, pkgutil, sys
import torch, numba  # once for all children
from torch.nn import functional as F
x = torch.randn(2, 4, 9, 9)
real = pkgutil.resolve_name

def lacking(names):
    def resolve(path):
        if path in names:
            raise AttributeError(path)
        return real(path)
    pkgutil.resolve_name = resolve
    import quadnorm as qn
    from quadnorm import _torch
    assert torch.allclose(qn.QuadNorm(4, measure="counting")(x), F.group_norm(x, 1), atol=1e-5)
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 1), torch.nn.GroupNorm(1, 4))
    assert qn.at_native(model, 9, "endpoint")(x[:, :1]).shape == x.shape
    for adapt in (qn.anchor, qn.extend):
        try:
            adapt(model, 9, "endpoint")
        except RuntimeError as error:
            assert all(name.replace(":", ".") in str(error) for name in names), error
        else:
            raise AssertionError(f"{names} is not missed")

every = sys.argv[1:]
for names in [[name] for name in every] if len(every) < 4 else [every]:
    child = os.fork()
    if not child:
        lacking(names)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit(f"without {names}")
"""


def _run_without(*names):
    done = subprocess.run([sys.executable, "-c", WITHOUT, *names], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_layer_works_without_any_of_them_and_adapters_name_what_they_miss():
    _run_without(*_torch.ASKED, *_torch.NEEDED)


@pytest.mark.slow
@pytest.mark.parametrize("at", range(0, len(_torch.ASKED) + len(_torch.NEEDED), 3))
def test_a_layer_works_without_each_of_them(at):
    _run_without(*[*_torch.ASKED, *_torch.NEEDED][at : at + 3])


def test_the_error_names_the_version(monkeypatch):
    monkeypatch.setattr(_torch, "missing", lambda: ("torch._C._gone",))
    with pytest.raises(RuntimeError, match=rf"PyTorch {torch.__version__.split('+')[0]}.* lacks torch._C._gone"):
        qn.anchor(torch.nn.Conv2d(1, 1, 1), 9, "endpoint")
