"""The picture of the rooms is what the import contracts say."""

from __future__ import annotations

import re
import runpy

from tests import ROOT
from tests.house.measure import SOURCE

rooms = runpy.run_path(str(ROOT / "docs" / "pictures" / "rooms.py"))
picture, contracts = rooms["picture"], rooms["contracts"]


def test_the_committed_picture_is_drawn_from_the_contracts() -> None:
    """``python docs/pictures/rooms.py`` draws it again."""
    assert rooms["PICTURE"].read_text(encoding="utf-8") == picture(contracts())


def test_the_picture_has_every_room_in_the_order_of_the_first_contract() -> None:
    shown = [
        name for line in re.findall(r'class="room"[^>]*>([^<]*)<', picture(contracts())) for name in line.split(", ")
    ]
    assert {p.parent.name for p in SOURCE.glob("*/__init__.py")} == set(shown)
    order = "".join(contracts()[0]["layers"])
    assert [order.index(name) for name in shown] == sorted(order.index(name) for name in shown)


def test_another_contract_gives_another_picture() -> None:
    changed = [dict(c) for c in contracts()]
    changed[0]["layers"] = changed[0]["layers"][::-1]
    assert picture(changed) != picture(contracts())
