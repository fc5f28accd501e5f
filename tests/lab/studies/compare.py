"""What two runs of a study must have in common."""

from pathlib import Path

from quadnorm.training import load_model


def fingerprint(root: Path) -> dict[str, str]:
    """Everything that must not depend on how often a study was stopped: errors and weights, byte by byte."""
    kept = {}
    for path in sorted(root.rglob("*")):
        if path.name == "best.safetensors":
            model, _ = load_model(path)
            kept[str(path.relative_to(root))] = str([p.detach().flatten().tolist() for p in model.parameters()])
        elif path.parent.name == "evaluations":
            kept[str(path.relative_to(root))] = path.read_text()
    return kept
