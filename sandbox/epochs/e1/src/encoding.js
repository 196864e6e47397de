// Library 1: text encodings and base64.
import { TextDecoder, TextEncoder } from "@exodus/bytes/encoding-lite.js";

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const VALUES = new Map([...ALPHABET].map((character, value) => [character, value]));

let Exception;
/** The prelude's DOMException. */
export const configure = (DOMException) => {
  Exception = DOMException;
};
const refuse = (message) => {
  throw new Exception(message, "InvalidCharacterError");
};

function btoa(data) {
  const text = `${data}`;
  let out = "";
  for (let i = 0; i < text.length; i += 3) {
    const [a, b, c] = [text.charCodeAt(i), text.charCodeAt(i + 1), text.charCodeAt(i + 2)];
    if (a > 255 || b > 255 || c > 255) {
      refuse("btoa takes characters up to U+00FF only: encode text with TextEncoder first");
    }
    out += ALPHABET[a >> 2] + ALPHABET[((a & 3) << 4) | (b >> 4)];
    out += i + 1 < text.length ? ALPHABET[((b & 15) << 2) | (c >> 6)] : "=";
    out += i + 2 < text.length ? ALPHABET[c & 63] : "=";
  }
  return out;
}

function atob(data) {
  let text = `${data}`.replace(/[\t\n\f\r ]/g, "");
  if (text.length % 4 === 0) text = text.replace(/={1,2}$/, "");
  if (text.length % 4 === 1 || /[^A-Za-z0-9+/]/.test(text)) refuse("atob was given text that is not base64");
  let out = "";
  let bits = 0;
  let held = 0;
  for (const character of text) {
    bits = (bits << 6) | VALUES.get(character);
    held += 6;
    if (held >= 8) {
      held -= 8;
      out += String.fromCharCode((bits >> held) & 255);
      bits &= (1 << held) - 1;
    }
  }
  return out;
}

export { TextDecoder, TextEncoder, atob, btoa };
