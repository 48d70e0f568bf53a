// console.table.

import { inspect } from "./inspect.js";
import { isObject, keysOf, kindOf, mapEntries, ownProperty, ownValue, setValues } from "./objects.js";

const MAX_ROWS = 1000;

/** The text of a table, or null when the data is none. */
export function table(data, columns) {
  if (!isObject(data)) return null;
  const rows = rowsOf(data).slice(0, MAX_ROWS);
  const wanted = isObject(columns) ? listOf(columns).map(([, name]) => `${name}`) : null;
  const names = [];
  let hasValues = false;
  for (const [, value] of rows) {
    if (!isObject(value)) hasValues = true;
    else for (const [key] of listOf(value)) if (!names.includes(key)) names.push(key);
  }
  const shown = wanted ?? names;
  const head = ["(index)", ...shown, ...(hasValues && wanted === null ? ["Values"] : [])];
  const body = rows.map(([key, value]) => {
    const cells = isObject(value) ? new Map(listOf(value)) : new Map();
    const texts = shown.map((name) => (cells.has(name) ? inspect(cells.get(name), 0) : ""));
    return [key, ...texts, ...(hasValues && wanted === null ? [isObject(value) ? "" : inspect(value, 0)] : [])];
  });
  return drawn([head, ...body]);
}

function rowsOf(data) {
  switch (kindOf(data)) {
    case "Map":
      return mapEntries(data).map(([key, value], index) => [`${index}`, pairOf(key, value)]);
    case "Set":
      return setValues(data).map((value, index) => [`${index}`, value]);
    default:
      return listOf(data);
  }
}

function pairOf(key, value) {
  return [key, value];
}

/** Keys and values of an object or array; getters are not called. */
function listOf(object) {
  const keys = [];
  if (Array.isArray(object)) for (let i = 0; i < Math.min(ownValue(object, "length"), MAX_ROWS); i++) keys.push(`${i}`);
  keys.push(...keysOf(object).filter((key) => typeof key === "string"));
  return keys.map((key) => [key, ownProperty(object, key)?.value]);
}

function drawn(rows) {
  const widths = rows[0].map((_, column) => Math.max(...rows.map((row) => row[column].length)) + 2);
  const rule = (left, middle, right) => left + widths.map((width) => "─".repeat(width)).join(middle) + right;
  const line = (row) => `│${row.map((text, column) => ` ${text}`.padEnd(widths[column])).join("│")}│`;
  const [head, ...body] = rows.map(line);
  return [rule("┌", "┬", "┐"), head, rule("├", "┼", "┤"), ...body, rule("└", "┴", "┘")].join("\n");
}
