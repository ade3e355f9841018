"""The document of the HTTP API as it is published, for tests that have a case for each of its operations.

Making it from the application takes seconds, and every test process would do so before its first test.
`test_document.py` holds it against what a controller answers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

DOCUMENT: dict[str, Any] = json.loads((Path(__file__).parents[2] / "docs/reference/openapi.json").read_text())
