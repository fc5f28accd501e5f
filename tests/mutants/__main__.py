"""``python -m tests.mutants``: try the mutants, keep what is found, list the survivors."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import tests.mutants
from tests import ROOT
from tests.mutants.draw import ROOMS, Mutant, drawn
from tests.mutants.trials import Trials

EQUIVALENT = Path(__file__).with_name("equivalent.json")


def tried(args: argparse.Namespace) -> Iterator[tuple[Mutant, str, str]]:
    """Every mutant of the draw with its verdict, new ones as they are found."""
    file = args.out / "results.jsonl"
    known = {}
    if file.exists():
        known = {r["key"]: r for r in map(json.loads, file.read_text(encoding="utf-8").splitlines())}
    equivalent = json.loads(EQUIVALENT.read_text(encoding="utf-8"))
    trials = None
    for mutant in drawn(args.count, args.seed, args.rooms):
        if mutant.key in equivalent:
            yield mutant, "equivalent", equivalent[mutant.key]
            continue
        before = known.get(mutant.key)
        if before is None or (args.again and before["verdict"] == "survived"):
            trials = trials or Trials(args.out, args.seconds)
            begun = time.monotonic()
            verdict, test = trials.verdict(mutant)
            before = {"key": mutant.key, "verdict": verdict, "test": test, "mutant": asdict(mutant)}
            with file.open("a", encoding="utf-8") as results:
                results.write(json.dumps(before) + "\n")
            print(f"{verdict:9s} {time.monotonic() - begun:5.0f} s  {mutant.path}:{mutant.line}  {test}", flush=True)
        yield mutant, before["verdict"], before["test"]


def main() -> int:
    """Try the mutants and list the survivors; exit code 1 if fewer than ``--least`` per cent were noticed."""
    parser = argparse.ArgumentParser(
        description=tests.mutants.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=300, help="changes to draw")
    parser.add_argument("--seed", type=int, default=0, help="another seed draws other changes")
    parser.add_argument("--rooms", nargs="+", default=list(ROOMS), choices=ROOMS)
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "mutants", help="folder for results and the copy")
    parser.add_argument("--again", action="store_true", help="try survivors again")
    parser.add_argument("--seconds", type=float, default=60, help="how long the tests of one mutant may take")
    parser.add_argument("--least", type=float, default=95, help="per cent that must be noticed")
    args = parser.parse_args()
    args.out = args.out.resolve()
    args.out.mkdir(parents=True, exist_ok=True)
    verdicts: dict[str, list[Mutant]] = {"killed": [], "survived": [], "equivalent": []}
    for mutant, verdict, _ in tried(args):
        verdicts[verdict].append(mutant)
    for mutant in verdicts["survived"]:
        print(f"\n{mutant.path}:{mutant.line}\n- {mutant.text.strip()}\n+ {mutant.changed.strip()}")
    killed, survived = len(verdicts["killed"]), len(verdicts["survived"])
    share = 100 * killed / max(1, killed + survived)
    print(f"\n{killed} noticed, {survived} survived, {len(verdicts['equivalent'])} make no difference: {share:.1f} %")
    return int(share < args.least)


if __name__ == "__main__":
    sys.exit(main())
