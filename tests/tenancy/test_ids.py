"""Ids sort by time."""

import uuid

from sandbox.journal.ids import TimeMs
from tenancy.ids import new_id, parse_id


def test_ids_are_uuids_of_version_7_in_the_order_of_time() -> None:
    ids = [new_id(TimeMs(at)) for at in (0, 1, 1_795_978_590_642, 1_795_978_590_643, (1 << 48) - 1)]
    assert ids == sorted(ids)
    for id_ in ids:
        parsed = uuid.UUID(id_)
        assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)
    assert uuid.UUID(ids[2]).int >> 80 == 1_795_978_590_642
    assert new_id(TimeMs(5)) != new_id(TimeMs(5))


def test_parsing() -> None:
    id_ = new_id(TimeMs(7))
    assert parse_id(id_) == parse_id(id_.upper()) == id_
    for wrong in (
        "",
        id_[1:],
        id_.replace("-", ""),
        "{" + id_[1:-1] + "}",
        "g" + id_[1:],
        id_ + "0",
        "urn:uuid:" + id_[9:],
    ):
        assert parse_id(wrong) is None, wrong
