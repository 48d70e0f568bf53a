// Reading what the host has sent, and writing what it is answered. A request's objects are of the user's realm, so that values in it can be
// handed on; only own properties count, for what they inherit is the user's to change.

export const own = (object, key) => Reflect.getOwnPropertyDescriptor(object, key)?.value;

/** The items of an array of the host's. */
export function items(array) {
  const list = [];
  for (let i = 0; i < array.length; i++) list.push(own(array, `${i}`));
  return list;
}

/** The entries of an object of the host's. */
export const entries = (object) => Reflect.ownKeys(object).map((key) => [key, own(object, key)]);

/** JSON that is text already. */
export class RawJson {
  constructor(text) {
    this.text = text;
  }

  toJSON() {
    return null;
  }
}

export function answerText(answer) {
  const text = JSON.stringify(answer);
  const raw = answer.value?.json ?? answer.variable?.json;
  return wellFormed(raw instanceof RawJson ? spliced(text, raw.text) : text);
}

/** In a string the quotes would be escaped, so this is found only where it stands as a key. */
function spliced(text, raw) {
  const place = '"json":';
  const at = text.indexOf(`${place}null`) + place.length;
  return text.slice(0, at) + raw + text.slice(at + "null".length);
}

/** A lone half of a surrogate pair is nothing that JSON may carry; JSON.stringify writes it as an escape. */
function wellFormed(text) {
  if (!text.includes("\\ud")) return text;
  return text.replace(/\\(?:ud[89a-f][0-9a-f]{2}|.)/g, (escape) => (escape.length === 6 ? "\\ufffd" : escape));
}
