"""The web's globals do what the web says, on logical time and on the run's own randomness."""

import base64
import hashlib

import pytest

from tests.sandbox.isolate.conftest import Run

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def value(run: Run, expression: str) -> object:
    return (await run(f"export default async function main() {{ return {expression}; }}")).output


CAUGHT = "((f: () => any) => {{ try {{ return f(); }} catch (e: any) {{ return [e.constructor.name, e.name, e.code ?? null]; }} }})(() => {})"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("atob('*')", ["DOMException", "InvalidCharacterError", 5]),
        ("btoa('€')", ["DOMException", "InvalidCharacterError", 5]),
        ("structuredClone(() => 1)", ["DOMException", "DataCloneError", 25]),
        ("structuredClone(Symbol('x'))", ["DOMException", "DataCloneError", 25]),
        ("AbortSignal.abort().throwIfAborted()", ["DOMException", "AbortError", 20]),
        ("crypto.getRandomValues(new Uint8Array(65537))", ["DOMException", "QuotaExceededError", 22]),
        ("new URL('nothing')", ["TypeError", "TypeError", None]),
        (
            "new TextDecoder('utf-8', { fatal: true }).decode(new Uint8Array([255]))",
            ["TypeError", "TypeError", None],
        ),
        ("new TextDecoder('nonsense')", ["RangeError", "RangeError", None]),
        ("queueMicrotask(1 as any)", ["TypeError", "TypeError", None]),
        ("setTimeout('code' as any, 1)", ["TypeError", "TypeError", None]),
        ("new AbortSignal()", ["TypeError", "TypeError", None]),
        ("new EventTarget().dispatchEvent({} as any)", ["TypeError", "TypeError", None]),
        ("AbortSignal.any([1 as any])", ["TypeError", "TypeError", None]),
        ("'x'.repeat(2 ** 23).normalize('NFKD')", ["RangeError", "RangeError", None]),
    ],
)
async def test_what_is_thrown(run: Run, expression: str, expected: list[object]) -> None:
    assert await value(run, CAUGHT.format(expression)) == expected


async def test_dom_exceptions_are_errors(run: Run) -> None:
    assert await value(
        run,
        "(() => { const e = new DOMException('m', { name: 'AbortError', cause: 1 } as any); const plain = new DOMException();\n"
        "return [e instanceof Error, e.message, e.name, e.code, e.cause, String(e), e.stack!.split('\\n')[0], plain.name, plain.message, plain.code, Object.prototype.toString.call(e)]; })()",
    ) == [
        True,
        "m",
        "AbortError",
        20,
        1,
        "AbortError: m",
        "AbortError: m",
        "Error",
        "",
        0,
        "[object DOMException]",
    ]


@pytest.mark.parametrize(
    ("algorithm", "name"),
    [("SHA-1", "sha1"), ("sha-256", "sha256"), ("SHA-384", "sha384"), ("SHA-512", "sha512")],
)
async def test_digests(run: Run, algorithm: str, name: str) -> None:
    expression = (
        f"btoa(String.fromCharCode(...new Uint8Array(await crypto.subtle.digest({{ name: '{algorithm}' }} as any,"
        " new TextEncoder().encode('héllo')))))"
    )
    assert (
        await value(run, expression)
        == base64.b64encode(hashlib.new(name, "héllo".encode()).digest()).decode()
    )


async def test_a_digest_settles_in_its_place(run: Run) -> None:
    world = await run(
        "export default async function main() { const order: string[] = [];\n"
        "const digest = crypto.subtle.digest('SHA-256', new Uint8Array(1)).then(() => order.push('digest'));\n"
        "Promise.resolve().then(() => order.push('after')); await digest; await null;\n"
        "return [order, await crypto.subtle.digest('MD5' as any, new Uint8Array(1)).catch((e: any) => e.name)]; }"
    )
    assert world.output == [["digest", "after"], "NotSupportedError"]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (
            "(() => { const u = new URL('../x?y=1#z', 'https://exämple.org:443/a/b/'); u.searchParams.append('q', 'é'); return [u.href, u.origin, u.port, [...u.searchParams], URL.canParse('::'), URL.parse('::')]; })()",
            [
                "https://xn--exmple-cua.org/a/x?y=1&q=%C3%A9#z",
                "https://xn--exmple-cua.org",
                "",
                [["y", "1"], ["q", "é"]],
                False,
                None,
            ],
        ),
        (
            "(() => { const p = new URLSearchParams({ b: '2', a: '1' }); p.sort(); return [String(p), p.size, p.has('a', '1')]; })()",
            ["a=1&b=2", 2, True],
        ),
        (
            "[...new TextEncoder().encode('é€😀')].concat([...new TextEncoder().encode('\\ud800')])",
            [195, 169, 226, 130, 172, 240, 159, 152, 128, 239, 191, 189],
        ),
        ("new TextDecoder('utf-16le').decode(new Uint8Array([0x41, 0, 0xe9, 0]))", "Aé"),
        ("[btoa('\\u00ff\\u0000a'), atob(' /w Bh ').length]", ["/wBh", 3]),
        (
            (
                "(() => { const c: any = { d: new Date(5), m: new Map([[1, new Set([2])]]), r: /x/gi, b: new Uint8Array([1]), e: new RangeError('e') }; c.self = c;\n"
                "const k: any = structuredClone(c); return [k.self === k, k.d.getTime(), [...k.m.get(1)], k.r.flags, k.b[0], k.e instanceof RangeError, k.e.message, k !== c]; })()"
            ),
            [True, 5, [2], "gi", 1, True, "e", True],
        ),
        (
            (
                "await new Promise((ok) => { const t = new EventTarget(); const seen: string[] = []; t.addEventListener('a', (e) => seen.push(e.type), { once: true });"
                " t.addEventListener('a', { handleEvent(e) { seen.push('object'); e.preventDefault(); } });"
                " const first = t.dispatchEvent(new Event('a', { cancelable: true })); t.dispatchEvent(new Event('a')); ok([first, seen]); })"
            ),
            [False, ["a", "object", "object"]],
        ),
        (
            "(() => { const a = new AbortController(), b = new AbortController(); const any = AbortSignal.any([a.signal, b.signal]); b.abort('why'); return [any.aborted, any.reason, a.signal.aborted]; })()",
            [True, "why", False],
        ),
        (
            "await new Promise((ok) => { const s = AbortSignal.timeout(50); s.onabort = () => ok([s.reason.name, performance.now()]); })",
            ["TimeoutError", 50],
        ),
        ("[typeof RegExp.escape, (RegExp as any).$1, (RegExp as any).lastMatch]", ["function", None, None]),
        (
            "await new Promise((ok) => { const seen: number[] = []; setTimeout((n) => seen.push(n), 2, 2); setTimeout(() => ok(seen), 3); setTimeout((n) => seen.push(n), 1, 1); queueMicrotask(() => seen.push(0)); })",
            [0, 1, 2],
        ),
    ],
)
async def test_what_is_computed(run: Run, expression: str, expected: object) -> None:
    assert await value(run, expression) == expected


async def test_console(run: Run) -> None:
    world = await run(
        "export default async function main() {\n"
        "console.group('outer'); console.log('inner', 1); console.group(); console.warn('deeper'); console.groupEnd(); console.groupEnd(); console.log('flat');\n"
        "console.count(); console.count('x'); console.count(); console.countReset(); console.count();\n"
        "console.time('t'); await new Promise((ok) => setTimeout(ok, 20)); console.timeLog('t', 'so far'); console.timeEnd('t');\n"
        "console.assert(true, 'not this'); console.assert(false); console.dir({ a: 1 }, { depth: 0 });\n"
        "console.table([{ a: 1, b: 2 }, { a: 3 }], ['a']); console.table('text');\n"
        "console.trace('here');\n"
        "const broken: any = () => 1; broken.toString = () => { throw new Error('no'); }; console.log('%s', broken); console.debug('%c%j', 'css', [1]); }"
    )
    assert world.logs == [
        ["log", "outer"],
        ["log", "  inner", 1],
        ["warn", "    deeper"],
        ["log", "flat"],
        ["log", "default: 1"],
        ["log", "x: 1"],
        ["log", "default: 2"],
        ["log", "default: 1"],
        ["log", "t: 20 ms", "so far"],
        ["log", "t: 20 ms"],
        ["error", "Assertion failed"],
        ["log", {"a": 1}],
        ["log", {"0": {"a": 1}, "1": {"a": 3}}],
        ["log", "text"],
        ["debug", "here", "Trace\n    at main (script.ts:7:9)"],
        ["log", "[function]"],
        ["debug", "[1]"],
    ]
