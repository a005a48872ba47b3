// The result as JSON text, by the rules of `encode.py`: the same value gives the same JSON in both languages.
//
// | value | JSON |
// |---|---|
// | undefined, null | null |
// | boolean, string | the same; lone surrogates become visible escapes |
// | number | a number; "NaN", "Infinity", "-Infinity" for values without a JSON number |
// | bigint | a number if it fits 64 bits, else a string of its digits |
// | Date | ISO 8601; null if it is invalid |
// | Array, Set, typed arrays of numbers | a list |
// | Map | an object, keys as text |
// | Uint8Array, ArrayBuffer | {"type": "bytes", "length", "base64"}, beyond BYTES_SHOWN also "truncated": true |
// | Error, RegExp, URL-like | text |
// | function, symbol | a description |
// | any other object | an object of its own enumerable properties; `toJSON` is called first |
// | an object inside itself | "<cycle>" |
// | a value deeper than MAX_DEPTH | "<too deep>" |
//
// Every object may be hostile: getters and traps may throw. Such a value becomes text that says so, and the values
// beside it are not affected. The text is built by concatenation only, which code cannot tamper with.
(function (native, shared) {
  "use strict";
  const { p, put, valid } = shared;
  const MAX_DEPTH = 64;
  const BYTES_SHOWN = 3072;
  const KEY_CHARS = 1024;
  const TEXT_CHARS = 4096;
  const ITEMS_SHOWN = 5;
  const KEYS_SHOWN = 50;
  const SMALLEST = 64;
  const MAX_LEVELS = 4;
  const TOO_LARGE = { __proto__: null };

  const quote = (text) => p.stringify(valid(text));
  shared.quote = quote;
  const cap = (text, most) => (text.length <= most ? text : p.slice(text, 0, most) + "…");

  const nameOf = (value) => {
    try {
      const maker = value.constructor;
      if (typeof maker === "function" && typeof maker.name === "string" && maker.name !== "") return cap(maker.name, 100);
    } catch {
      // A trap threw, so there is no name.
    }
    return "Object";
  };
  shared.nameOf = nameOf;

  const is = (probe, value) => {
    try {
      probe(value);
      return true;
    } catch {
      return false;
    }
  };
  shared.is = is;

  const number = (value) => {
    if (value !== value) return '"NaN"';
    if (!p.isFinite(value)) return value > 0 ? '"Infinity"' : '"-Infinity"';
    return p.numberText(value === 0 ? 0 : value);
  };

  const bigint = (value) => {
    const text = p.bigintText(value);
    return value >= -(2n ** 63n) && value < 2n ** 64n ? text : '"' + text + '"';
  };

  const bytes = (value) => {
    const view = p.isView(value)
      ? new p.Uint8Array(p.viewBuffer(value), p.viewOffset(value), p.viewLength(value)) : new p.Uint8Array(value);
    const length = p.viewLength(view);
    const shown = p.toBase64(p.viewSlice(view, 0, BYTES_SHOWN));
    const rest = length > BYTES_SHOWN ? ',"truncated":true' : "";
    return `{"type":"bytes","length":${length},"base64":"${shown}"${rest}}`;
  };

  const failed = (value, error) => {
    let name = "an error";
    try {
      name = nameOf(error);
    } catch {
      // The name cannot be read.
    }
    return quote(`<${nameOf(value)} object; reading it raised ${name}>`);
  };

  // One step: {text} for values without parts, {items} for lists, {pairs} for objects.
  const expand = (value) => {
    if (value === undefined || value === null) return { __proto__: null, text: "null" };
    switch (typeof value) {
      case "boolean": return { __proto__: null, text: value ? "true" : "false" };
      case "string": return { __proto__: null, text: quote(value), plain: value };
      case "number": return { __proto__: null, text: number(value) };
      case "bigint": return { __proto__: null, text: bigint(value) };
      case "symbol": return { __proto__: null, text: quote(cap(p.symbolText(value), TEXT_CHARS)) };
      case "function": return { __proto__: null, text: quote(`<function ${cap(`${value.name}`, 100)}>`) };
    }
    if (p.isArray(value)) {
      return { __proto__: null, kind: "Array", length: value.length, items: (take) => {
        for (let i = 0; i < value.length; i++) if (!take(value[i])) return;
      } };
    }
    if (is(p.getTime, value)) {
      return { __proto__: null, text: p.getTime(value) === p.getTime(value) ? quote(p.toISOString(value)) : "null" };
    }
    if (is(p.mapSize, value)) {
      const found = [];
      p.mapEach(value, (element, key) => { put(found, [key, element]); });
      return { __proto__: null, kind: "Map", length: found.length, pairs: (take) => {
        for (let i = 0; i < found.length; i++) if (!take(keyText(found[i][0]), () => found[i][1])) return;
      } };
    }
    if (is(p.setSize, value)) {
      const found = [];
      p.setEach(value, (element) => { put(found, element); });
      return { __proto__: null, kind: "Set", length: found.length, items: (take) => {
        for (let i = 0; i < found.length; i++) if (!take(found[i])) return;
      } };
    }
    if (is(p.byteLength, value)) return { __proto__: null, text: bytes(value) };
    const tag = p.isView(value) && is(p.viewLength, value) ? p.viewTag(value) : undefined;
    if (tag === "Uint8Array" || tag === "Uint8ClampedArray") return { __proto__: null, text: bytes(value) };
    if (tag !== undefined) {
      return { __proto__: null, kind: tag, length: p.viewLength(value), items: (take) => {
        for (let i = 0; i < p.viewLength(value); i++) if (!take(value[i])) return;
      } };
    }
    if (value instanceof p.Error) return { __proto__: null, text: quote(cap(shared.errorText(value), TEXT_CHARS)) };
    if (is(p.regexSource, value) && value instanceof p.RegExp) return { __proto__: null, text: quote(p.regexSource(value)) };
    if (is(p.numberValue, value)) return expand(p.numberValue(value));
    if (is(p.stringValue, value)) return expand(p.stringValue(value));
    if (is(p.booleanValue, value)) return expand(p.booleanValue(value));
    if (value instanceof p.Promise) return { __proto__: null, text: quote("<a promise: await it>") };
    const convert = value.toJSON;
    // A method that every object has is not meant for this one.
    if (typeof convert === "function" && convert !== p.objectPrototype.toJSON) {
      const converted = p.apply(convert, value, [""]);
      if (converted !== value && (typeof converted !== "object" || converted === null)) return expand(converted);
      if (converted !== value) return expandObject(converted);
    }
    return expandObject(value);
  };

  const expandObject = (value) => {
    if (p.isArray(value)) return expand(value);
    const keys = p.ownKeys(value);
    const shown = [];
    for (let i = 0; i < keys.length; i++) {
      if (typeof keys[i] === "string" && p.isEnumerable(value, keys[i])) put(shown, keys[i]);
    }
    return { __proto__: null, kind: nameOf(value), length: shown.length, pairs: (take) => {
      for (let i = 0; i < shown.length; i++) if (!take(shown[i], () => value[shown[i]])) return;
    } };
  };

  const keyText = (key) => {
    if (typeof key === "string") return cap(key, KEY_CHARS);
    try {
      const plain = expand(key);
      if (plain.text !== undefined) return cap(plain.text[0] === '"' ? p.parse(plain.text) : plain.text, KEY_CHARS);
      return cap(p.String(key), KEY_CHARS);
    } catch {
      return "<a key that cannot be read>";
    }
  };

  class Encoder {
    constructor(budget) {
      this.left = budget;
      this.open = new p.Set();
    }

    spend(amount) {
      this.left -= amount;
      if (this.left < 0) throw TOO_LARGE;
    }

    convert(value, depth) {
      let plain;
      try {
        plain = expand(value);
      } catch (error) {
        if (isFatal(error)) throw error;
        plain = { __proto__: null, text: failed(value, error) };
      }
      if (plain.text !== undefined) {
        this.spend(plain.text.length);
        return plain.text;
      }
      if (p.setHas(this.open, value)) return '"<cycle>"';
      if (depth >= MAX_DEPTH) return '"<too deep>"';
      p.setAdd(this.open, value);
      try {
        this.spend(2);
        return plain.items === undefined ? this.object(value, plain, depth) : this.list(value, plain, depth);
      } finally {
        p.setDelete(this.open, value);
      }
    }

    list(value, plain, depth) {
      let out = "";
      const add = (text) => {
        this.spend(1);
        out += (out === "" ? "" : ",") + text;
      };
      try {
        plain.items((element) => {
          add(this.convert(element, depth + 1));
          return true;
        });
      } catch (error) {
        if (isFatal(error)) throw error;
        add(failed(value, error));
      }
      return "[" + out + "]";
    }

    object(value, plain, depth) {
      let out = "";
      const taken = new p.Set();
      const add = (key, text) => {
        let name = key;
        for (let count = 2; p.setHas(taken, name); count++) name = `${key} (${count})`;
        p.setAdd(taken, name);
        const quoted = quote(name);
        this.spend(quoted.length + 2);
        out += (out === "" ? "" : ",") + quoted + ":" + text;
      };
      try {
        plain.pairs((key, read) => {
          let element;
          try {
            element = read();
          } catch (error) {
            if (isFatal(error)) throw error;
            add(key, failed(value, error));
            return true;
          }
          // As in JSON, functions and undefined values are not properties.
          if (element !== undefined && typeof element !== "function") add(key, this.convert(element, depth + 1));
          return true;
        });
      } catch (error) {
        if (isFatal(error)) throw error;
        add("error", failed(value, error));
      }
      return "{" + out + "}";
    }
  }

  const isFatal = (error) => error === TOO_LARGE || isOutOfMemory(error);
  const isOutOfMemory = (error) => {
    try {
      return error instanceof p.Error && error.name === "InternalError" && error.message === "out of memory";
    } catch {
      return false;
    }
  };

  // Summarises a result that is too large: its shape and its beginning.
  const outline = (value, room, level) => {
    let plain;
    try {
      plain = expand(value);
    } catch (error) {
      return failed(value, error);
    }
    if (plain.plain !== undefined) {
      const half = p.floor(room / 8);
      const text = plain.plain;
      const head = quote(p.slice(text, 0, half));
      const tail = quote(half > 0 ? p.slice(text, -half) : "");
      return `{"type":"string","length":${text.length},"head":${head},"tail":${tail}}`;
    }
    if (plain.text !== undefined) return plain.text.length <= room ? plain.text : '"<too large>"';
    const start = `{"type":${quote(cap(plain.kind, SMALLEST))},"length":${p.String(+plain.length || 0)}`;
    if (level >= MAX_LEVELS || room < SMALLEST) return start + "}";
    if (plain.items !== undefined) {
      const share = p.floor(room / ITEMS_SHOWN);
      let out = "";
      let count = 0;
      const quietly = (walk) => {
        try {
          walk();
        } catch (error) {
          if (isOutOfMemory(error)) throw error;
        }
      };
      quietly(() => plain.items((element) => {
        out += (count === 0 ? "" : ",") + part(element, share, level);
        return ++count < ITEMS_SHOWN;
      }));
      return `${start},"items":[${out}]}`;
    }
    const share = p.floor(room / (2 * ITEMS_SHOWN));
    let left = p.floor(room / 2);
    let keys = "";
    let items = "";
    let count = 0;
    try {
      plain.pairs((key, read) => {
        const name = quote(key);
        left -= name.length + 1;
        if (left < 0) return false;
        keys += (count === 0 ? "" : ",") + name;
        if (count < ITEMS_SHOWN) {
          let text;
          try {
            text = part(read(), share, level);
          } catch (error) {
            text = failed(value, error);
          }
          items += (count === 0 ? "" : ",") + name + ":" + text;
        }
        return ++count < KEYS_SHOWN;
      });
    } catch (error) {
      if (isOutOfMemory(error)) throw error;
    }
    return `${start},"keys":[${keys}],"items":{${items}}}`;
  };

  const part = (value, room, level) => {
    try {
      return new Encoder(room < SMALLEST ? SMALLEST : room).convert(value, MAX_DEPTH / 2);
    } catch (error) {
      if (error !== TOO_LARGE) throw error;
      return outline(value, room, level + 1);
    }
  };

  // JSON text of at most `limit` characters, and whether it is only a summary.
  shared.encode = (value, limit) => {
    try {
      const text = new Encoder(limit).convert(value, 0);
      if (native.utf8Length(text) <= limit) return { __proto__: null, text, truncated: false };
    } catch (error) {
      if (error !== TOO_LARGE) throw error;
    }
    for (let share = 2; share <= 32; share *= 4) {
      const text = outline(value, p.floor(limit / share), 0);
      if (native.utf8Length(text) <= limit) return { __proto__: null, text, truncated: true };
    }
    return { __proto__: null, text: "null", truncated: true };
  };
  shared.toJson = (value) => new Encoder(Infinity).convert(value, 0);
})
