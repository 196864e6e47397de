// Library 2: crypto.subtle.digest. Settles in order: the digest is computed at once.
import { sha1 } from "@noble/hashes/legacy.js";
import { sha256, sha384, sha512 } from "@noble/hashes/sha2.js";

const HASHES = { __proto__: null, "SHA-1": sha1, "SHA-256": sha256, "SHA-384": sha384, "SHA-512": sha512 };

let Exception;
/** The prelude's DOMException. */
export const configure = (DOMException) => {
  Exception = DOMException;
};

const bytesOf = (data) => {
  if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength).slice();
  if (data instanceof ArrayBuffer) return new Uint8Array(data.slice(0));
  throw new TypeError("crypto.subtle.digest needs an ArrayBuffer or a typed array");
};

export const subtle = Object.freeze({
  async digest(algorithm, data) {
    const name = `${typeof algorithm === "object" && algorithm !== null ? algorithm.name : algorithm}`.toUpperCase();
    const hash = HASHES[name];
    if (hash === undefined) {
      throw new Exception(`crypto.subtle.digest knows SHA-1, SHA-256, SHA-384 and SHA-512, not ${name}`, "NotSupportedError");
    }
    return hash(bytesOf(data)).buffer;
  },
});
