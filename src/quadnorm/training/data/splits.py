"""Which samples of stored data are used for training, validation and test, and how many."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quadnorm.problems import Problem
from quadnorm.training.config import ResolutionsConfig, SamplesConfig, TrainConfig

KEPT_BACK = 10  # validation (or test) data without a file take one in this many of the training samples


def settled(config: TrainConfig, p: Problem) -> TrainConfig:
    """The config with counts and grids of stored data filled in; a config that is complete is returned unchanged.

    Training takes the first samples of the train set; validation those of the val set, or else the last training
    samples; the test those of the test set, or else training samples that neither of the two uses. Counts that were not
    given are what the sets hold, grids that were not given are those of the files.
    """
    sets: Mapping[str, range] | None = getattr(p, "splits", None) if _open(config, p) else None
    if sets is None:
        return config
    update: dict[str, Any] = {"samples": _samples(config.samples, sets, p.name)}
    stores = getattr(p, "sets", None)
    if stores is not None:
        update["resolutions"] = _grids(config.resolutions, stores())
    return config.model_copy(update=update)


def _open(config: TrainConfig, p: Problem) -> bool:
    """Whether the config leaves the beginning of a split to the data."""
    s = config.samples
    return hasattr(type(p), "splits") and s.train_from is None and s.val_from is None and s.test_from is None


def _samples(given: SamplesConfig, sets: Mapping[str, range], name: str) -> SamplesConfig:
    counts = {split: getattr(given, split) for split in given.model_fields_set if split in ("train", "val", "test")}
    for split in ("val", "test"):
        held = len(sets["train"]) // KEPT_BACK or 1 if split not in sets else len(sets[split])
        wanted = counts.setdefault(split, held)
        if split in sets and wanted > held:
            raise ValueError(f"{name}: samples.{split} is {wanted}, but the {split} files hold {held} samples")
    train = sets["train"]
    kept = sum(counts[split] for split in ("val", "test") if split not in sets)
    left = len(train) - kept
    if counts.get("train", 1) > left:
        lacking = " and ".join(f"{counts[s]} for the {s} set" for s in ("val", "test") if s not in sets)
        share = f", of which {lacking} are taken (there is no file for it)" if kept else ""
        # Without a number that was asked for, one training sample is the least.
        wanted = (
            f"samples.train is {counts['train']}, but" if "train" in counts else "at least 1 sample must train, and"
        )
        raise ValueError(
            f"{name}: {wanted} the train files hold {len(train)} samples{share}; "
            f"at most {max(left, 0)} are left: "
            + ("give files for them (problem.params.val, problem.params.test), or " if kept else "")
            + "ask for fewer samples (samples.train, samples.val, samples.test)"
        )
    counts.setdefault("train", left)
    val = sets["val"] if "val" in sets else train[len(train) - counts["val"] :]
    end = len(train) - (0 if "val" in sets else counts["val"])
    test = sets["test"] if "test" in sets else train[end - counts["test"] : end]
    return SamplesConfig(**counts, train_from=train.start, val_from=val.start, test_from=test.start)


def _grids(given: ResolutionsConfig, stores: Mapping[str, Any]) -> ResolutionsConfig:
    values = given.model_dump(exclude_unset=True)
    if "train" not in values:
        values["train"] = [_grid(stores["train"][0].shape)]
    if values.get("val") is None and "val" in stores:
        there = [_grid(s.shape) for s in stores["val"]]
        if not set(values["train"]) <= set(there):  # else the default, the training grids
            values["val"] = there
    if values.get("test") is None:
        values["test"] = [_grid(s.shape) for s in stores["test"]] if "test" in stores else values["train"]
    return ResolutionsConfig(**values)


def _grid(shape: tuple[int, ...]) -> int | tuple[int, ...]:
    return shape[0] if len(set(shape)) == 1 else shape
