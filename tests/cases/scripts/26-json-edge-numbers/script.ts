import { probe } from "rewind:tools";

export default async function main() {
  const values = [0, -0, 1e21, 1e-7, 123456789012345680000, 5e-324, 1.7976931348623157e308, 0.1 + 0.2, 9007199254740993, -1e-7, 1e20, 100, 4.35, 0.000001, 2 ** 53];
  const out: unknown[] = [];
  for (const n of values) {
    const { n: back } = await probe.echo({ n });
    out.push([back === n || (n === 0 && back === 0), `${back}`]);
  }
  const { n: text } = await probe.echo({ n: Number.MAX_SAFE_INTEGER });
  return { out, text, nested: await probe.echo({ n: 1, deep: { "": [null, false, "", {}], "é\u0000\u2028": "\ud83d\ude00\\\"/\b\f\n\r\t\u007f" } }) };
}
