// Variables of a guest as values of JavaScript.

import type { VariableForm } from "./generated.js";

/** A value that JSON cannot carry: its type and the text the interpreter would print. */
export class GuestValue {
  readonly typeName: string;
  readonly text: string;

  constructor(typeName: string, text: string) {
    this.typeName = typeName;
    this.text = text;
  }

  toString(): string {
    return this.text;
  }
}

/** Numbers that are too large to be exact come as BigInt. */
export function valueOf({ type_name, text, has_json, json }: VariableForm): unknown {
  if (!has_json) return new GuestValue(type_name, text);
  const inexact = typeof json === "number" && Number.isInteger(json) && !Number.isSafeInteger(json);
  return inexact && type_name === "int" && /^-?\d+$/.test(text) ? BigInt(text) : json;
}
