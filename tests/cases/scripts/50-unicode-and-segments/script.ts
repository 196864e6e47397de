import { i18n } from "rewind:tools";

export default async function main(input: { texts: string[] }) {
  const seg = new Intl.Segmenter("en", { granularity: "grapheme" });
  const out = [];
  for (const text of input.texts) {
    const graphemes = [...seg.segment(text)].map((s) => s.segment);
    const { translated } = await i18n.translate({ text, to: "de" });
    out.push({ units: text.length, points: [...text].length, graphemes: graphemes.length, first: graphemes[0], upper: text.toLocaleUpperCase("en"), nfc: text.normalize("NFC").length, well: text.isWellFormed(), enc: encodeURIComponent(text).length, bytes: new TextEncoder().encode(text).byteLength, translated, rev: graphemes.toReversed().join(""), cmp: text.localeCompare(translated), at: text.codePointAt(0)?.toString(16), pad: text.padEnd(6, "·").slice(0, 6) });
  }
  const sorted = input.texts.toSorted(new Intl.Collator("de", { sensitivity: "base", numeric: true }).compare);
  return { out, sorted, fixed: "a\ud800b".toWellFormed(), esc: JSON.stringify("\u2028</script>\u0007"), re: "naïve café".replace(/\p{L}+/gu, (w) => w[0]!.toUpperCase() + w.slice(1)), chars: "ß".toUpperCase() };
}
