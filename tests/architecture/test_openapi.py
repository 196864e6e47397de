"""The published OpenAPI document: a change of the API is a change of this file, seen in review.

REWIND_UPDATE_SNAPSHOTS=1 writes it anew.
"""

import json
import os
from pathlib import Path
from typing import Any, cast

from app.main import create_app

SNAPSHOT = Path(__file__).resolve().parents[2] / "infra" / "openapi.json"


def test_the_snapshot_is_what_is_served() -> None:
    document = create_app(cast("Any", None)).openapi()
    text = json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    if os.environ.get("REWIND_UPDATE_SNAPSHOTS"):
        SNAPSHOT.write_text(text)
    assert SNAPSHOT.read_text() == text, "run it with REWIND_UPDATE_SNAPSHOTS=1 and look at the difference"
