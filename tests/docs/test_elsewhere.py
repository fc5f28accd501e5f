"""The page of other libraries: each section runs by itself, where its packages are installed."""

import ast
import importlib.util
import re
import socket
import sys
from pathlib import Path

import pytest

from tests import ROOT

PAGE = (ROOT / "docs" / "howto" / "elsewhere.md").read_text(encoding="utf-8")
SECTIONS = dict(section.split("\n", 1) for section in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:])
OURS = {"torch", "quadnorm", *sys.stdlib_module_names}


def blocks(text: str) -> str:
    return "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE))


def packages(code: str) -> set[str]:
    """The packages besides torch and ours that code imports."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found - OURS


def import_torchvision() -> None:
    """Import torchvision, which PhysicsNeMo needs, also where it was built for another torch than the one here.

    An index may offer torch for the CPU and torchvision for CUDA. Its compiled operators cannot be loaded then, and its
    import stops at the first; no section calls them, so that declaring them is enough.
    """
    try:
        import torchvision
    except RuntimeError as error:
        if "operator torchvision::" not in str(error):
            raise
        import torch

        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        source = Path(importlib.util.find_spec("torchvision").origin).with_name("_meta_registrations.py")
        for operator in re.findall(r'register_fake\("(torchvision::\w+)"\)', source.read_text(encoding="utf-8")):
            torch.library.define(operator, "() -> ()")
        import torchvision  # noqa: F401


@pytest.mark.filterwarnings("ignore")  # what other packages warn of is theirs
@pytest.mark.parametrize("section", [title for title in SECTIONS if blocks(SECTIONS[title])])
def test_the_section_runs(section, tmp_path, monkeypatch):
    code = blocks(SECTIONS[section])
    if importlib.util.find_spec("torchvision"):
        import_torchvision()
    for package in packages(code):
        pytest.importorskip(package, exc_type=ModuleNotFoundError)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}.items():
        if "torch.distributed" in code:  # as torchrun does
            monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "elsewhere"}
    exec(compile(blocks(PAGE.split("\n## ")[0]) + "\n" + code, "elsewhere.md", "exec"), namespace)
    if "everywhere" in namespace:  # the model itself at its training grid, and finite beyond it
        import torch

        everywhere, x, fine = (namespace[name] for name in ("everywhere", "x", "fine"))
        assert everywhere(fine).shape == fine.shape
        assert torch.isfinite(everywhere(fine)).all()
        model = next(namespace[name] for name in ("trained", "plain", "training", "model") if name in namespace)
        model = getattr(model, "operator", model)
        assert torch.allclose(everywhere(x), model(x), atol=1e-5)


def test_the_packages_are_those_of_the_extra():
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    used = set().union(*(packages(blocks(text)) for text in SECTIONS.values()))
    names = {"nvidia_physicsnemo": "physicsnemo", "neuraloperator": "neuralop"}
    offered = {re.match(r"[\w-]+", line)[0].replace("-", "_") for line in extras["elsewhere"]}
    assert {names.get(name, name) for name in offered} == used
