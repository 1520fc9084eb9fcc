"""What travels between the connector and the brain, as cases that the tests of both sides read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def cases(name: str) -> list[dict[str, Any]]:
    """The cases of one JSON file beside this one."""
    found: list[dict[str, Any]] = json.loads((Path(__file__).parent / f"{name}.json").read_text())
    return found
