"""Which runs a filter finds: the same for lists and for cancelling many at once."""

import re
from dataclasses import dataclass, field
from typing import Any

import orjson

from sandbox.journal.ids import NamespaceId, RunId, TimeMs
from sandbox.store.interface import RunStatus

_ID_PREFIX = re.compile(r"[0-9a-f]{1,8}(-[0-9a-f]{0,4}){0,3}(-[0-9a-f]{0,12})?")
ID_PREFIX_MIN = 4
"""Shorter beginnings of ids name nobody's run: all runs of a month begin alike."""


@dataclass(frozen=True, slots=True)
class RunFilter:
    """All that is given must match. `q`: the beginning of a run's id, or words of its labels, workflow or toolset."""

    statuses: tuple[RunStatus, ...] = ()
    """Any of them; none: all."""
    labels: dict[str, str] = field(default_factory=dict)
    script: str | None = None
    workflow: str | None = None
    toolset: str | None = None
    parent: RunId | None = None
    from_ms: TimeMs | None = None
    to_ms: TimeMs | None = None
    q: str | None = None

    def where(self, namespace: NamespaceId, before: RunId | None) -> tuple[str, list[Any]]:
        """The condition on run_facts as `f`, and its parameters."""
        conditions: list[str] = ["f.namespace_id = $1"]
        values: list[Any] = [namespace]

        def add(sql: str, value: Any) -> None:
            if value is not None:
                values.append(value)
                conditions.append(sql.replace("?", f"${len(values)}"))

        add("f.status = any(?::smallint[])", list(self.statuses) or None)
        add("f.script = ?", self.script)
        add("f.workflow = ?", self.workflow)
        add("(f.toolset = ? or f.toolset || '@' || f.toolset_digest = ?)", self.toolset)
        add("f.parent ->> 'run' = ?::text", self.parent)
        add("f.started_at >= ?", self.from_ms)
        add("f.started_at < ?", self.to_ms)
        add("f.run_id < ?", before)
        add("f.labels @> ?::jsonb", orjson.dumps(self.labels).decode() if self.labels else None)
        add("f.terms @@ run_query($1, ?::text[], '')", self._terms() or None)
        if self.q is not None:
            bounds = _id_bounds(self.q)
            values.append(self.q)
            found = f"f.terms @@ run_query($1, '{{}}', ${len(values)})"
            if bounds is not None:
                values.extend(bounds)
                found = f"({found} or f.run_id between ${len(values) - 1} and ${len(values)})"
            conditions.append(found)
        return " and ".join(conditions), values

    def _terms(self) -> list[str]:
        """As `run_terms` makes them: what the index finds, the conditions on columns then decide."""
        terms = [f"l:{key}={value}" for key, value in self.labels.items()]
        for mark, value in (("s", self.script), ("f", self.workflow), ("t", self.toolset)):
            if value is not None:
                terms.append(f"{mark}:{value}")
        return terms

    def to_json(self) -> dict[str, Any]:
        return {
            "statuses": [int(status) for status in self.statuses],
            "labels": self.labels,
            "script": self.script,
            "workflow": self.workflow,
            "toolset": self.toolset,
            "parent": self.parent,
            "from_ms": self.from_ms,
            "to_ms": self.to_ms,
            "q": self.q,
        }

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> "RunFilter":
        return cls(**{**found, "statuses": tuple(RunStatus(status) for status in found["statuses"])})


def _id_bounds(q: str) -> tuple[str, str] | None:
    """The smallest and the greatest id that begin so; None: no id does."""
    text = q.strip().lower()
    if len(text) < ID_PREFIX_MIN or _ID_PREFIX.fullmatch(text) is None:
        return None
    shape = "00000000-0000-0000-0000-000000000000"
    if len(text) > len(shape) or any((a == "-") != (b == "-") for a, b in zip(text, shape, strict=False)):
        return None
    low = text + shape[len(text) :]
    return low, text + shape[len(text) :].replace("0", "f")
