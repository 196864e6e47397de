"""Scripts out of a small grammar, one per seed: what models write, mixed without mercy.

Every script ends by itself, and reads whatever a script could read that might differ between two executions.
"""

import random
from collections.abc import Callable

DEPTH_MAX = 3
IMPORTS = ("sleep", "waitForSignal", "retry", "run", "progress", "ToolError")

READS = (
    "Date.now()",
    "new Date().toISOString()",
    "new Date(Date.now() + 86400000).toLocaleString()",
    "String(new Date().constructor())",
    "Math.random()",
    "Math.floor(Math.random() * 1000)",
    "crypto.randomUUID()",
    "[...crypto.getRandomValues(new Uint8Array(3))]",
    "performance.now()",
    "new Intl.DateTimeFormat('en', { timeStyle: 'medium', dateStyle: 'full' }).format()",
    "Intl.DateTimeFormat().formatToParts().map((p) => p.value).join('')",
    "new Intl.NumberFormat('de', { style: 'currency', currency: 'EUR' }).format(Math.random() * 1e6)",
    "Intl.DateTimeFormat().resolvedOptions().timeZone",
    "new Intl.RelativeTimeFormat('en').format(-3, 'day')",
    "['ä', 'z', 'a', 'Z'].sort(new Intl.Collator('sv').compare)",
    "new Error('read').stack",
    "[3, 1, 2].map((n) => new TypeError(String(n)).stack)[1]",
    "(() => { let n = 0; const f = () => { n++; f(); }; try { f(); } catch (e) { return [n, e.name]; } })()",
    "Math.sin(Math.random()) + Math.exp(Math.random()) ** 1.5",
    "(123456.789).toLocaleString()",
    "[...new Map([[1, { a: 1 }], ['k', [2]]])]",
    "[...new Set('mississippi')].join('')",
    "structuredClone({ d: new Date(), m: [1, { x: 'é' }] })",
    "new URL('../x?y=1#z', 'https://exämple.org/a/b/').href",
    "btoa(new TextDecoder().decode(new TextEncoder().encode('plain')))",
    "Object.keys({ b: 1, a: 2, 10: 3, 2: 4 })",
    "JSON.stringify({ n: -0, u: undefined, d: new Date(0), nested: [[]] })",
    "'aXbXc'.replace(/X/g, () => Math.random().toString(36).slice(2, 4))",
    "Object.groupBy([1, 2, 3, 4], (n) => (n % 2 ? 'odd' : 'even'))",
    "new Event('tick').timeStamp",
    "run.deadline.toISOString() + run.labels.team + run.id",
    "[typeof fetch, typeof WeakRef, typeof Temporal, typeof Atomics]",
    "(2n ** 70n).toString()",
    "Array.from({ length: 4 }, (_, i) => i * i).toReversed()",
    "new Uint16Array([3, 1, 2]).toSorted().join()",
)


class Grammar:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._names = 0

    def script(self) -> str:
        rows = [f"  {line}" for line in self._block(0, self._random.randint(2, 5))]
        end = self._random.choice(
            ["return out;"] * 6
            + [
                "throw new ToolError('end', { code: 'own' });",
                "",
                "void Promise.reject(new RangeError('forgotten')); await sleep(5); return out;",
            ]
        )
        head = [
            "const out = [];",
            "const note = (value) => { out.push(value); return value; };",
            *self._helpers(),
        ]
        return "\n".join([*head, "async function main(input) {", *rows, f"  {end}", "}"])

    # -- Pieces

    def _name(self) -> str:
        self._names += 1
        return f"v{self._names}"

    def _helpers(self) -> list[str]:
        return [
            "class Counter { #n = 0; static made = 0; constructor() { Counter.made++; } get n() { return this.#n; }",
            "  add(k = 1) { this.#n += k; return this; } async later(ms) { await sleep(ms); return this.add().n; }",
            "  *[Symbol.iterator]() { for (let i = 0; i < 3; i++) yield this.#n + i; } }",
            "async function* pages(n) { for (let i = 0; i < n; i++) { yield (await probe.echo({ page: i })).page; } }",
            "function* upTo(n) { try { for (let i = 0; i < n; i++) { const sent = yield i; if (sent) i += sent; } } finally { note('generator done'); } }",
        ]

    def _read(self) -> str:
        return self._random.choice(READS)

    def _promise(self) -> str:
        """Something to wait for, which may fail."""
        ms, n = self._random.randint(0, 40), self._random.randint(0, 99)
        return self._random.choice(
            [
                f"probe.echo({{ n: {n} }})",
                f"probe.echo({{ when: {self._read()} }})",
                f"probe.fail({{ message: 'no {n}' }})",
                f"sleep({ms})",
                f"sleep('{ms}ms').then(() => {n})",
                "sleep(new Date(Date.now() + 7))",
                f"new Promise((ok) => setTimeout(() => ok(note({n})), {ms}))",
                f"(async () => {{ await null; return note({n}); }})()",
                f"(async () => {{ await sleep({ms}); throw new RangeError('late {n}'); }})()",
                f"Promise.resolve({n})",
                f"new Counter().later({ms})",
                f"waitForSignal('go', {{ timeout: {ms} }})",
                f"probe.echo({{ n: {n} }}).finally(() => note('finally {n}'))",
                f"retry(async (attempt) => {{ if (attempt < 2) throw new Error('again'); return attempt + {n}; }}, {{ backoff: {ms} }})",
                f"probe.echo({{ n: {n} }}, {{ signal: AbortSignal.timeout({ms}) }})",
            ]
        )

    def _promises(self) -> str:
        return ", ".join(self._promise() for _ in range(self._random.randint(2, 4)))

    def _block(self, depth: int, count: int) -> list[str]:
        return [line for _ in range(count) for line in self._statement(depth)]

    def _inner(self, depth: int) -> list[str]:
        return [f"  {line}" for line in self._block(depth + 1, self._random.randint(1, 3))]

    def _statement(self, depth: int) -> list[str]:
        simple: list[Callable[[], list[str]]] = [
            lambda: [f"note({self._read()});"],
            lambda: [f"console.log('say', {self._read()});"],
            lambda: [
                f"note(await {self._promise()}.catch((e) => `${{e.name}}: ${{e.message}} ${{e.stack}}`));"
            ],
            lambda: [f"await {self._promise()}.then(note, (e) => note(e.code ?? e.name));"],
            lambda: [
                f"note((await Promise.allSettled([{self._promises()}])).map((r) => r.value ?? r.reason?.name));"
            ],
            lambda: [f"note(await Promise.race([{self._promises()}]).catch((e) => e.message));"],
            lambda: [f"note(await Promise.all([{self._promises()}]).catch((e) => [e.name, e.stack]));"],
            lambda: [f"note(await Promise.any([{self._promises()}]).catch((e) => e.errors.length));"],
            lambda: [f"void {self._promise()}.then(note, () => note('forgotten failed'));"],
            lambda: [f"queueMicrotask(() => note({self._read()}));"],
            lambda: [
                f"setTimeout((a) => note([a, {self._read()}]), {self._random.randint(0, 30)}, 'fired');"
            ],
            lambda: [f"progress({{ step: {self._read()} }});"],
            lambda: [f"for (const n of upTo({self._random.randint(0, 3)})) note(n);"],
            lambda: ["for await (const page of pages(2)) note(page);"],
            lambda: ["for (const n of new Counter().add(2)) { if (n > 3) break; note(n); }"],
            self._interval,
            self._abort,
            self._dispose,
        ]
        nested = [self._try, self._loop, self._closure, self._parallel]
        if depth < DEPTH_MAX and self._random.random() < 0.35:
            return self._random.choice(nested)(depth)
        return self._random.choice(simple)()

    def _interval(self) -> list[str]:
        name = self._name()
        return [
            f"await new Promise((done) => {{ let ticks = 0; const {name} = setInterval(() => {{",
            f"  note(['tick', {self._read()}]); if (++ticks === 2) {{ clearInterval({name}); done(); }} }}, {self._random.randint(1, 9)}); }});",
        ]

    def _abort(self) -> list[str]:
        name = self._name()
        return [
            f"const {name} = new AbortController();",
            f"{name}.signal.addEventListener('abort', () => note('aborted'), {{ once: true }});",
            f"setTimeout(() => {name}.abort(new Error('enough')), {self._random.randint(0, 20)});",
            f"note(await probe.echo({{ slow: true }}, {{ signal: {name}.signal }}).catch((e) => [e.name, e.cause?.message]));",
        ]

    def _dispose(self) -> list[str]:
        return ["{ using held = { [Symbol.dispose]() { note('disposed'); } }; void held; note(1); }"]

    def _try(self, depth: int) -> list[str]:
        return [
            "try {",
            *self._inner(depth),
            f"  await {self._promise()};",
            "} catch (e) {",
            "  note([e.name, e.message, e instanceof ToolError, e.stack]);",
            *self._inner(depth),
            "} finally {",
            f"  note({self._read()});",
            "}",
        ]

    def _loop(self, depth: int) -> list[str]:
        name = self._name()
        return [
            f"for (let {name} = 0; {name} < {self._random.randint(1, 2)}; {name}++) {{",
            *self._inner(depth),
            "}",
        ]

    def _closure(self, depth: int) -> list[str]:
        name = self._name()
        return [
            f"const {name} = async (a, {{ b = {self._read()} }} = {{}}) => {{",
            *self._inner(depth),
            "  return [a, b];",
            "};",
            f"note(await {name}(1).catch((e) => e.name));",
        ]

    def _parallel(self, depth: int) -> list[str]:
        return [
            "await Promise.allSettled([1, 2].map(async (n) => {",
            "  note(n);",
            *self._inner(depth),
            "}));",
        ]
