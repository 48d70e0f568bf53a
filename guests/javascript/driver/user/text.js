// TextEncoder and TextDecoder.
(function ({ encode, decode, utf8Problem, cutShort }) {
  const { apply } = Reflect;
  const toWellFormed = String.prototype.toWellFormed;
  const subarray = Uint8Array.prototype.subarray;
  const setBytes = Uint8Array.prototype.set;
  const charCodes = String.fromCharCode;
  const labels = { __proto__: null, "utf-8": "utf-8", utf8: "utf-8", "utf-16le": "utf-16le", "utf-16": "utf-16le", latin1: "windows-1252", "iso-8859-1": "windows-1252", ascii: "windows-1252", "us-ascii": "windows-1252", "windows-1252": "windows-1252" };

  class TextEncoder {
    get encoding() {
      return "utf-8";
    }
    encode(text = "") {
      return encode(apply(toWellFormed, text, []));
    }
    encodeInto(text, target) {
      let read = 0;
      let written = 0;
      for (const char of `${text}`) {
        const bytes = encode(apply(toWellFormed, char, []));
        if (written + bytes.length > target.length) break;
        apply(setBytes, target, [bytes, written]);
        read += char.length;
        written += bytes.length;
      }
      return { read, written };
    }
  }

  class TextDecoder {
    #encoding;
    #fatal;
    #keepsMark;
    #pending = new Uint8Array(0);
    #begun = false;
    constructor(label = "utf-8", { fatal = false, ignoreBOM = false } = {}) {
      this.#encoding = labels[`${label}`.trim().toLowerCase()];
      if (this.#encoding === undefined) throw new RangeError(`The encoding '${label}' is not supported`);
      this.#fatal = !!fatal;
      this.#keepsMark = !!ignoreBOM;
    }
    get encoding() {
      return this.#encoding;
    }
    get fatal() {
      return this.#fatal;
    }
    get ignoreBOM() {
      return this.#keepsMark;
    }
    decode(input = new Uint8Array(0), { stream = false } = {}) {
      let bytes = joined(this.#pending, bytesOf(input));
      this.#pending = new Uint8Array(0);
      const left = stream ? this.#unfinished(bytes) : 0;
      if (left > 0) {
        this.#pending = bytes.slice(bytes.length - left);
        bytes = apply(subarray, bytes, [0, bytes.length - left]);
      }
      let text = this.#text(bytes);
      if (!this.#begun && !this.#keepsMark && text.charCodeAt(0) === 0xfeff) text = text.slice(1);
      this.#begun = stream && (this.#begun || bytes.length > 0);
      return text;
    }
    #unfinished(bytes) {
      return this.#encoding === "utf-8" ? cutShort(bytes) : this.#encoding === "utf-16le" ? bytes.length % 2 : 0;
    }
    #text(bytes) {
      if (this.#encoding === "utf-8") {
        if (this.#fatal && utf8Problem(bytes) >= 0) throw new TypeError("The encoded data was not valid for encoding utf-8");
        return decode(bytes);
      }
      let text = "";
      if (this.#encoding === "utf-16le")
        for (let i = 0; i + 1 < bytes.length; i += 2) text += charCodes(bytes[i] | (bytes[i + 1] << 8));
      else for (let i = 0; i < bytes.length; i++) text += charCodes(bytes[i]);
      return text;
    }
  }

  function bytesOf(input) {
    if (ArrayBuffer.isView(input)) return new Uint8Array(input.buffer, input.byteOffset, input.byteLength);
    return new Uint8Array(input);
  }

  function joined(first, second) {
    if (first.length === 0) return second;
    const both = new Uint8Array(first.length + second.length);
    apply(setBytes, both, [first]);
    apply(setBytes, both, [second, first.length]);
    return both;
  }

  return { TextEncoder, TextDecoder };
});
