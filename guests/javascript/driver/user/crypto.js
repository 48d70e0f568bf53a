// crypto: randomness from the host.
(function ({ fillRandom, randomUUID }) {
  const crypto = {
    getRandomValues(array) {
      if (!ArrayBuffer.isView(array) || array instanceof DataView || array instanceof Float32Array || array instanceof Float64Array)
        throw new TypeError("getRandomValues takes a typed array of whole numbers");
      if (array.byteLength > 65536) throw new RangeError("getRandomValues gives at most 65536 bytes at a time");
      return fillRandom(array);
    },
    randomUUID() {
      return randomUUID();
    },
  };
  Object.defineProperty(crypto, Symbol.toStringTag, { value: "Crypto", configurable: true });
  return { crypto };
});
