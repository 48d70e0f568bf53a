// The text of any value, as Node's console shows it. Runs no code of the user's.

import {
  bufferLength, classNameOf, findValue, isObject, keysOf, kindOf, mapEntries, mapSize, ownProperty, ownValue, prototypeOf,
  regExpParts, setSize, setValues, typedLength,
} from "./objects.js";
import { errorHead, frames } from "./stack.js";

const LINE = 80;
const MAX_ITEMS = 100;
const MAX_KEYS = 1000;
const MAX_STRING = 10_000;
// More than anybody reads; what is left out is said.
const MAX_CHARS = 256 * 1024;
// Objects with fewer levels inside than this may stand on one line.
const LEVELS_ON_A_LINE = 3;

export function inspect(value, depth = 2) {
  return new Inspector(depth).value(value, 0, 0).text;
}

/** A string in the quotes it needs least escapes with. */
export function quoted(text) {
  const quote = !text.includes("'") ? "'" : !text.includes('"') ? '"' : !text.includes("`") && !text.includes("${") ? "`" : "'";
  let result = quote;
  for (const char of text) result += char === quote ? `\\${quote}` : (ESCAPES[char] ?? escapedControl(char));
  return result + quote;
}

const ESCAPES = { __proto__: null, "\n": "\\n", "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f", "\v": "\\v", "\\": "\\\\" };

function escapedControl(char) {
  const code = char.charCodeAt(0);
  if (code < 0x20 || (code >= 0x7f && code < 0xa0)) return `\\x${code.toString(16).toUpperCase().padStart(2, "0")}`;
  return code >= 0xd800 && code < 0xe000 && char.length === 1 ? `\\u${code.toString(16).toUpperCase()}` : char;
}

export function primitiveText(value) {
  switch (typeof value) {
    case "string":
      return quoted(value);
    case "number":
      return Object.is(value, -0) ? "-0" : `${value}`;
    case "bigint":
      return `${value}n`;
    case "symbol":
      return String(value);
    default:
      return String(value);
  }
}

// What a value looks like: its text, and how many levels of objects are in it.
const flat = (text) => ({ text, levels: 0 });

class Inspector {
  constructor(depth) {
    this.depth = depth;
    this.left = MAX_CHARS;
    this.path = [];
    this.circular = [];
  }

  value(value, level, indent) {
    if (typeof value === "string" && value.length > MAX_STRING) {
      const more = value.length - MAX_STRING;
      return this.counted(flat(`${quoted(value.slice(0, MAX_STRING))}... ${more} more character${more > 1 ? "s" : ""}`));
    }
    if (!isObject(value)) return this.counted(flat(primitiveText(value)));
    while (kindOf(value) === "Proxy") {
      value = host.proxyTarget(value);
      if (value === null) return flat("<Revoked Proxy>");
    }
    if (this.path.includes(value)) return flat(`[Circular *${this.circularIndex(value)}]`);
    this.path.push(value);
    const shown = this.object(value, level, indent);
    this.path.pop();
    const index = this.circular.indexOf(value);
    return index < 0 ? shown : { text: `<ref *${index + 1}> ${shown.text}`, levels: shown.levels };
  }

  counted(shown) {
    this.left -= shown.text.length;
    return shown;
  }

  circularIndex(value) {
    if (!this.circular.includes(value)) this.circular.push(value);
    return this.circular.indexOf(value) + 1;
  }

  object(value, level, indent) {
    const kind = kindOf(value);
    const form = this.form(value, kind, indent);
    const keys = keysOf(value).slice(0, MAX_KEYS).filter((key) => kind !== "Error" || key !== "stack");
    if (form.items === undefined && keys.length === 0 && form.base !== "") return this.counted(flat(form.base));
    if (level > this.depth) return this.counted(flat(`[${form.name || "Object"}]`));
    const inner = indent + 2;
    const { items, levels } = this.items(form.items, level, inner);
    let deepest = levels;
    for (const key of keys) {
      if (this.left <= 0) {
        items.push("...");
        break;
      }
      const property = ownProperty(value, key);
      const shown = this.property(property, level, inner);
      deepest = Math.max(deepest, shown.levels);
      items.push(`${keyText(key)}: ${shown.text}`);
      this.left -= 4 + (typeof key === "string" ? key.length : 0);
    }
    const [open, close] = form.braces;
    if (items.length === 0) return this.counted(flat(`${form.prefix}${open}${close}`));
    const isGrid = form.isList && items.length > 6 && keys.length === 0;
    const lines = isGrid ? grid(items, inner, form.items) : items;
    const text = laidOut(lines, form, indent, deepest, lines.length === items.length);
    return { text, levels: deepest + 1 };
  }

  property(property, level, indent) {
    if (property === undefined) return flat("<uninitialized>");
    if (property.get !== undefined) return flat(property.set === undefined ? "[Getter]" : "[Getter/Setter]");
    if (property.set !== undefined) return flat("[Setter]");
    return this.value(property.value, level + 1, indent);
  }

  items(list, level, indent) {
    const items = [];
    let levels = 0;
    const add = (value) => {
      const shown = this.value(value, level + 1, indent);
      levels = Math.max(levels, shown.levels);
      return shown.text;
    };
    for (const item of list ?? []) {
      if (this.left <= 0) {
        items.push("...");
        break;
      }
      items.push(item.note ?? (item.key === undefined ? add(item.value) : `${add(item.key.value)} => ${add(item.value)}`));
    }
    return { items, levels };
  }

  /** How an object of this kind is written: before its braces, in them, or altogether (`base`). */
  form(value, kind, indent) {
    const name = classNameOf(value) ?? (typeof value === "function" ? "Function" : `[${kind}: null prototype]`);
    const plain = { name, base: "", prefix: `${name} `, braces: ["{", "}"] };
    if (typeof value === "function") return { ...plain, ...based(functionText(value)), name: "Function" };
    switch (kind) {
      case "Array":
        return list(plain, name === "Array" ? "" : `${name}(${ownValue(value, "length")}) `, arrayItems(value));
      case "Map":
        return { ...plain, prefix: `${name}(${mapSize(value)}) `, items: capped(mapEntries(value).map(([key, entry]) => ({ key: { value: key }, value: entry }))) };
      case "Set":
        return { ...plain, prefix: `${name}(${setSize(value)}) `, items: capped(setValues(value).map((entry) => ({ value: entry }))) };
      case "Error":
        return { ...plain, ...based(errorText(value).replaceAll("\n", `\n${" ".repeat(indent)}`)), items: causeItems(value) };
      case "Date":
        return { ...plain, ...based(dateText(value)) };
      case "RegExp":
        return { ...plain, ...based(regExpText(value)) };
      case "Number": case "String": case "Boolean": case "Symbol": case "BigInt":
        return { ...plain, ...based(boxText(value, kind)) };
      case "Promise":
        return { ...plain, items: promiseItems(value) };
      case "ArrayBuffer": case "SharedArrayBuffer":
        return { ...plain, items: [{ note: `byteLength: ${bufferLength(value)}` }] };
      case "WeakMap": case "WeakSet": case "WeakRef":
        return { ...plain, items: [{ note: "<items unknown>" }] };
      case "Arguments":
        return list(plain, "[Arguments] ", arrayItems(value));
      case "Generator": case "AsyncGenerator":
        return { ...plain, prefix: `Object [${kind}] ` };
      case "Module":
        return { ...plain, prefix: "[Module: null prototype] " };
    }
    if (ArrayBuffer.isView(value) && kind !== "DataView")
      return list(plain, `${name}(${typedLength(value)}) `, typedItems(value));
    const tag = findValue(value, Symbol.toStringTag);
    const tagged = typeof tag === "string" && tag !== "" && tag !== name ? `${name} [${tag}] ` : `${name} `;
    return { ...plain, prefix: name === "Object" && tagged === "Object " ? "" : tagged };
  }
}

const based = (base) => ({ base, prefix: `${base} ` });
const list = (plain, prefix, items) => ({ ...plain, prefix, braces: ["[", "]"], items, isList: true });

function laidOut(lines, form, indent, deepest, mayStandOnOneLine) {
  const [open, close] = form.braces;
  if (mayStandOnOneLine && deepest < LEVELS_ON_A_LINE) {
    const length = lines.reduce((sum, line) => sum + line.length, lines.length) + lines.length + indent + form.prefix.length + 10;
    const single = lines.every((line) => !line.includes("\n")) && !form.prefix.includes("\n");
    if (length <= LINE && single) return `${form.prefix}${open} ${lines.join(", ")} ${close}`;
  }
  const margin = `\n${" ".repeat(indent)}`;
  return `${form.prefix}${open}${margin}  ${lines.join(`,${margin}  `)}${margin}${close}`;
}

/** Short items of a long list stand in columns. */
function grid(items, indent, list) {
  const rest = items.length > list.length || list.at(-1)?.isRest ? items.slice(-1) : [];
  const cells = rest.length > 0 ? items.slice(0, -1) : items;
  const lengths = cells.map((cell) => cell.length + 2);
  const widest = Math.max(...lengths);
  const total = lengths.reduce((sum, length) => sum + length, 0);
  if (cells.some((cell) => cell.includes("\n")) || widest * 3 + indent >= LINE || !(total / widest > 5 || widest <= 8)) return items;
  const typical = Math.max(widest - 3 - Math.sqrt(widest - total / cells.length), 1);
  const columns = Math.min(Math.round(Math.sqrt(2.5 * typical * cells.length) / typical), Math.floor((LINE - indent) / widest), 12, 15);
  if (columns <= 1) return items;
  const widths = Array.from({ length: columns }, (_, column) => Math.max(0, ...lengths.filter((_, i) => i % columns === column)));
  const isNumbers = list.every((item) => item.isRest || typeof item.value === "number" || typeof item.value === "bigint");
  const rows = [];
  for (let start = 0; start < cells.length; start += columns) {
    const row = cells.slice(start, start + columns).map((cell, column, all) => {
      const isLast = column === all.length - 1;
      if (isNumbers) return (isLast ? cell : `${cell}, `).padStart(isLast ? widths[column] - 2 : widths[column]);
      return isLast ? cell : `${cell}, `.padEnd(widths[column]);
    });
    rows.push(row.join(""));
  }
  return [...rows, ...rest];
}

function keyText(key) {
  if (typeof key === "symbol") return `[${String(key)}]`;
  return /^[a-zA-Z_$][\w$]*$/.test(key) ? key : quoted(key);
}

const rest = (count) => ({ note: `... ${count} more item${count > 1 ? "s" : ""}`, isRest: true });

function capped(items) {
  return items.length > MAX_ITEMS ? [...items.slice(0, MAX_ITEMS), rest(items.length - MAX_ITEMS)] : items;
}

function arrayItems(array) {
  const length = ownValue(array, "length");
  const items = [];
  let at = 0;
  let scanned = 0;
  while (at < length && items.length < MAX_ITEMS && scanned++ < 100 * MAX_ITEMS) {
    const property = ownProperty(array, `${at}`);
    if (property === undefined) {
      const last = items.at(-1);
      if (last?.holes) last.holes++;
      else items.push({ holes: 1 });
    } else if (property.get !== undefined || property.set !== undefined) {
      items.push({ note: "[Getter/Setter]" });
    } else {
      items.push({ value: property.value });
    }
    at++;
  }
  for (const item of items) if (item.holes) item.note = `<${item.holes} empty item${item.holes > 1 ? "s" : ""}>`;
  if (at < length) items.push(rest(length - at));
  return items;
}

function typedItems(array) {
  const length = typedLength(array);
  const items = [];
  for (let i = 0; i < length && i < MAX_ITEMS; i++) items.push({ value: array[i] });
  if (length > MAX_ITEMS) items.push(rest(length - MAX_ITEMS));
  return items;
}

function promiseItems(promise) {
  switch (host.promiseState(promise)) {
    case 0:
      return [{ note: "<pending>" }];
    case 1:
      return [{ value: host.promiseResult(promise) }];
    default:
      return [{ note: `<rejected> ${inspect(host.promiseResult(promise), 1)}` }];
  }
}

function functionText(value) {
  const name = ownValue(value, "name");
  const called = typeof name === "string" && name !== "" ? name : null;
  if (host.isClass(value)) {
    const parent = prototypeOf(value);
    const extended = typeof parent === "function" ? ownValue(parent, "name") : undefined;
    const of = typeof extended === "string" && extended !== "" ? ` extends ${extended}` : "";
    return `[class ${called ?? "(anonymous)"}${of}]`;
  }
  const kind = kindOf(value);
  const what = ["AsyncFunction", "GeneratorFunction", "AsyncGeneratorFunction"].includes(kind) ? kind : "Function";
  return called === null ? `[${what} (anonymous)]` : `[${what}: ${called}]`;
}

function errorText(error) {
  const trace = frames(error);
  const head = errorHead(error);
  return trace.length === 0 ? `[${head}]` : `${head}\n${trace.join("\n")}`;
}

function causeItems(error) {
  const cause = ownProperty(error, "cause");
  return cause !== undefined && !cause.enumerable && cause.value !== undefined
    ? [{ note: `[cause]: ${inspect(cause.value, 1)}` }]
    : undefined;
}

function dateText(value) {
  const time = Reflect.apply(Date.prototype.getTime, value, []);
  return Number.isNaN(time) ? "Invalid Date" : Reflect.apply(Date.prototype.toISOString, value, []);
}

function regExpText(value) {
  const { source, flags } = regExpParts(value);
  return `/${source}/${flags}`;
}

const boxed = { __proto__: null, Number, String, Boolean, Symbol, BigInt };

function boxText(value, kind) {
  return `[${kind}: ${primitiveText(Reflect.apply(boxed[kind].prototype.valueOf, value, []))}]`;
}
