// Looking at values of the user's. Nothing in this driver reads a property of theirs, calls a
// function of theirs or lets one be converted except through here, through `host.call` (from outside
// of their code) or through `host.get` and `host.invoke` (from within a portal). What is here runs
// no code of theirs at all: proxies are not asked, getters are not called.

export const isObject = (value) => (typeof value === "object" && value !== null) || typeof value === "function";

export const kindOf = host.kind;

/** The prototype, or null; a proxy has none. */
export function prototypeOf(object) {
  return kindOf(object) === "Proxy" ? null : Reflect.getPrototypeOf(object);
}

/** The descriptor of an own property, or undefined. */
export function ownProperty(object, key) {
  if (kindOf(object) === "Proxy") return undefined;
  try {
    return Reflect.getOwnPropertyDescriptor(object, key);
  } catch {
    // A binding of a module that is still being loaded.
    return undefined;
  }
}

/** The value of an own property that is no getter, or undefined. */
export const ownValue = (object, key) => ownProperty(object, key)?.value;

/** Likewise, of the object or what it inherits from. */
export function findValue(object, key) {
  // Prototypes may not form a circle, but a proxy among them ends the search.
  for (let at = object; at !== null; at = prototypeOf(at)) {
    const property = ownProperty(at, key);
    if (property !== undefined) return property.value;
  }
  return undefined;
}

/** Enumerable own keys, without the indices of an array. */
export function keysOf(object) {
  if (kindOf(object) === "Proxy") return [];
  const isList = Array.isArray(object) || ArrayBuffer.isView(object) || kindOf(object) === "String";
  const keys = isList ? host.namedKeys(object) : Reflect.ownKeys(object);
  return keys.filter((key) => ownProperty(object, key)?.enumerable);
}

/** The name of the class an object is of, or null. */
export function classNameOf(object) {
  for (let at = object; at !== null; at = prototypeOf(at)) {
    const constructor = ownValue(at, "constructor");
    if (typeof constructor === "function") {
      const name = ownValue(constructor, "name");
      if (typeof name === "string" && name !== "") return name;
    }
  }
  return null;
}

/** The methods of our own realm work on objects of the user's: they look at what is inside. */
export const getter = (prototype, key) => {
  const { get } = Reflect.getOwnPropertyDescriptor(prototype, key);
  return (object) => Reflect.apply(get, object, []);
};
const typedArrayPrototype = Reflect.getPrototypeOf(Uint8Array.prototype);
export const typedLength = getter(typedArrayPrototype, "length");
export const bufferLength = getter(ArrayBuffer.prototype, "byteLength");
export const mapSize = getter(Map.prototype, "size");
export const setSize = getter(Set.prototype, "size");
export const mapEntries = (map) => listed(Map.prototype.forEach, map, (value, key) => [key, value]);
export const setValues = (set) => listed(Set.prototype.forEach, set, (value) => value);
const flagGetters = ["hasIndices", "global", "ignoreCase", "multiline", "dotAll", "unicode", "unicodeSets", "sticky"].map(
  (name, index) => [getter(RegExp.prototype, name), "dgimsuvy"[index]],
);
const regExpSource = getter(RegExp.prototype, "source");
export const regExpParts = (value) => ({
  source: regExpSource(value),
  flags: flagGetters.map(([is, flag]) => (is(value) ? flag : "")).join(""),
});

function listed(forEach, collection, entry) {
  const entries = [];
  Reflect.apply(forEach, collection, [(value, key) => void entries.push(entry(value, key))]);
  return entries;
}
