"""Both ends of the wire name the same version."""

from __future__ import annotations

import re
from pathlib import Path

import lakemend
from lakemend.session.channel import WIRE_VERSION


def test_both_ends_name_the_same_version() -> None:
    text = (Path(lakemend.__file__).parent / "connector" / "Bridge.scala").read_text()
    assert re.findall(r"val WireVersion = (\d+)", text) == [str(WIRE_VERSION)]
