"""One isolate, one run: whatever a script spoils, the next one in the same process finds everything as new."""

import json

import pytest

from sandbox.isolate.pool import ChildPool
from tests.sandbox.isolate.test_limits import opened, started

pytestmark = pytest.mark.asyncio(loop_scope="module")

_WALK = """
  const seen = new Set(), todo = [globalThis, (async () => {}).constructor, (function* () {}).constructor,
    (async function* () {}).constructor, [][Symbol.iterator]().__proto__, ''[Symbol.iterator]().__proto__, echo];
  const keysOf = Reflect.ownKeys, describe = Reflect.getOwnPropertyDescriptor, protoOf = Reflect.getPrototypeOf;
  while (todo.length > 0) {
    const o = todo.pop();
    if (o === null || (typeof o !== 'object' && typeof o !== 'function') || seen.has(o)) continue;
    seen.add(o);
    todo.push(protoOf(o));
    for (const key of keysOf(o)) {
      const d = describe(o, key);
      todo.push(d.value, d.get, d.set);
    }
  }
"""
_SPOIL = """
  const set = Reflect.set, define = Reflect.defineProperty, all = [...seen];
  for (let i = 0; i < all.length; i++) {
    define(all[i], 'leak', { value: 'spoiled', writable: true, configurable: true });
  }
  for (let i = 0; i < all.length; i++) {
    const keys = keysOf(all[i]);
    for (let k = 0; k < keys.length; k++) {
      const d = describe(all[i], keys[k]);
      if (d !== undefined && typeof d.value === 'function') set(all[i], keys[k], () => 'spoiled');
    }
  }
"""
_LOOK = """
  const found = [];
  for (const o of seen) if (describe(o, 'leak') !== undefined) found.push(typeof o);
  return { found, objects: seen.size, max: Math.max(1, 2), text: JSON.stringify([new Date(0), 'a'.at(0)]),
    pushed: (() => { const a = []; a.push(1); return a; })(), now: Date.now(), draws: Math.random() };
"""


async def test_what_a_script_spoils_is_its_own(pool: ChildPool) -> None:
    async def looked() -> object:
        isolate = await opened(pool, f"async function main() {{ {_WALK} {_LOOK} }}", cpu_ms=5_000)
        delivery = await isolate.deliver([started()])
        await isolate.close()
        return json.loads(delivery.commands[-1]["output"])

    before = await looked()
    assert isinstance(before, dict)
    assert before["found"] == []
    assert before["objects"] > 500
    spoiler = await opened(pool, f"async function main() {{ {_WALK} {_SPOIL} }}", cpu_ms=5_000)
    await spoiler.deliver([started()])
    at_the_same_time = await looked()
    await spoiler.close()
    assert at_the_same_time == before
    assert await looked() == before
