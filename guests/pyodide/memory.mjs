// A cap on the interpreter's memory that it notices as MemoryError. Code that means to get around it can;
// the jail's own limit then ends the process.

const PAGE_BYTES = 65536;

export function limitMemory(bytes) {
  const grow = WebAssembly.Memory.prototype.grow;
  WebAssembly.Memory.prototype.grow = function (pages) {
    if (this.buffer.byteLength + pages * PAGE_BYTES > bytes) throw new RangeError("the policy allows no more memory");
    return Reflect.apply(grow, this, [pages]);
  };
}
