// ATTACK: detached and resizable buffers, transfers, huge typed arrays
// RIGHT: completed; what the web platform refuses is refused by its names, and no buffer outgrows the sandbox.
import { probe } from "rewind:tools";
export default async function main() {
  const out: Record<string, unknown> = {};
  const t = async (k: string, f: () => unknown) => { try { out[k] = await f() ?? null; } catch (e) { out[k] = (e as Error).name; } };
  await t("detached", () => { const b = new ArrayBuffer(8); const u = new Uint8Array(b); structuredClone(b, { transfer: [b] }); return u.length; });
  await t("transfer", () => { const b = new ArrayBuffer(8); (b as any).transfer?.(4); return b.byteLength; });
  await t("resizable", () => { const b = new (ArrayBuffer as any)(8, { maxByteLength: 1e9 }); b.resize(2e8); return b.byteLength; });
  await t("random", () => { const u = new Uint8Array(65537); crypto.getRandomValues(u); return 1; });
  await t("randomFloat", () => crypto.getRandomValues(new Float32Array(2) as any));
  await t("digest", async () => Array.from(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode("a")))).slice(0, 4));
  await t("digestBad", () => crypto.subtle.digest("MD5", new Uint8Array(1)));
  await t("subtleOther", () => typeof (crypto.subtle as any).generateKey);
  await t("decode", () => new TextDecoder("utf-8", { fatal: true }).decode(new Uint8Array([0xff])));
  await t("decodeLoose", () => new TextDecoder().decode(new Uint8Array([0xef, 0xbb, 0xbf, 0xff, 0x41])));
  await t("clonefn", () => structuredClone(() => 1));
  await t("echo", () => probe.echo({ value: new Float64Array([1.5, NaN]) } as any));
  return out;
}
