"""What processes say of themselves: lines that nobody else can write.

Messages and tracebacks may hold words of tenants, and these may hold line breaks: a line that begins like one of ours
would be taken for one. So only the first line of a record begins at the margin, and control characters are shown.
"""

import logging
import re

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
CONTINUED = "  | "
_BREAKS = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]")


class OwnLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        lines = _BREAKS.split(super().format(record))
        return f"\n{CONTINUED}".join(_CONTROLS.sub(_shown, line) for line in lines)


def configure_logs() -> None:
    """For a process that serves: to standard error, from INFO on."""
    handler = logging.StreamHandler()
    handler.setFormatter(OwnLines(FORMAT))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def _shown(found: re.Match[str]) -> str:
    return f"\\x{ord(found[0]):02x}"
