// Renders values for people, and implements `console`.
(function (native, shared) {
  "use strict";
  const { p, put, offer, is, nameOf } = shared;
  const MAX_DEPTH = 4;
  const MAX_ITEMS = 100;
  const MAX_TEXT = 10000;
  const LINE = 76;

  const isIdentifier = /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u;
  const quoted = (text) => {
    const shown = text.length > MAX_TEXT ? p.slice(text, 0, MAX_TEXT) + `… ${text.length - MAX_TEXT} more` : text;
    const inner = p.stringify(shown);
    if (p.indexOf(shown, "'") !== -1) return inner;
    let out = "";
    const body = p.slice(inner, 1, -1);
    for (let i = 0; i < body.length; i++) {
      if (body[i] === "\\" && body[i + 1] === '"') continue;
      out += body[i];
      if (body[i] === "\\") out += body[++i];
    }
    return "'" + out + "'";
  };

  const errorName = (error) => {
    try {
      return p.String(error.name);
    } catch {
      return "Error";
    }
  };
  shared.errorText = (error) => {
    try {
      const name = errorName(error);
      let message = p.String(error.message);
      if (name === "ToolError") message = `${error.server}.${error.tool}: ${message} (${error.code})`;
      if (message === "") return name;
      return name === "" ? message : `${name}: ${message}`;
    } catch {
      return "an error that cannot be read";
    }
  };

  // Pieces on one line if they fit, or else one line each.
  const wrap = (open, pieces, close, indent) => {
    if (pieces.length === 0) return open + close;
    let length = open.length + close.length + indent;
    let single = true;
    for (let i = 0; i < pieces.length; i++) {
      length += pieces[i].length + 2;
      if (p.indexOf(pieces[i], "\n") !== -1) single = false;
    }
    if (single && length <= LINE) return `${open} ${p.join(pieces, ", ")} ${close}`;
    const pad = p.repeat(" ", indent + 2);
    return `${open}\n${pad}${p.join(pieces, `,\n${pad}`)}\n${p.repeat(" ", indent)}${close}`;
  };

  const show = (value, depth, indent, open) => {
    switch (typeof value) {
      case "string": return quoted(value);
      case "number": return value === 0 && 1 / value < 0 ? "-0" : p.numberText(value);
      case "bigint": return p.bigintText(value) + "n";
      case "symbol": return p.symbolText(value);
      case "function": {
        const name = typeof value.name === "string" ? value.name : "";
        return name === "" ? "[Function (anonymous)]" : `[Function: ${name}]`;
      }
      case "object": break;
      default: return p.String(value);
    }
    if (value === null) return "null";
    if (p.setHas(open, value)) return "[Circular]";
    p.setAdd(open, value);
    try {
      return object(value, depth, indent, open);
    } catch (error) {
      if (error instanceof p.Error && error.name === "InternalError") throw error;
      return `<${nameOf(value)} that cannot be read>`;
    } finally {
      p.setDelete(open, value);
    }
  };

  const more = (pieces, length) => {
    if (length > MAX_ITEMS) put(pieces, `... ${length - MAX_ITEMS} more`);
  };

  const object = (value, depth, indent, open) => {
    const inner = (element) => show(element, depth + 1, indent + 2, open);
    const pieces = [];
    if (p.isArray(value) || (p.isView(value) && is(p.viewLength, value))) {
      const length = value.length;
      const prefix = p.isArray(value) ? "" : `${p.viewTag(value)}(${length}) `;
      if (depth >= MAX_DEPTH) return "[Array]";
      for (let i = 0; i < length && i < MAX_ITEMS; i++) {
        put(pieces, p.isArray(value) && !(i in value) ? "<empty>" : inner(value[i]));
      }
      more(pieces, length);
      return wrap(prefix + "[", pieces, "]", indent);
    }
    if (is(p.getTime, value)) return p.getTime(value) === p.getTime(value) ? p.toISOString(value) : "Invalid Date";
    if (value instanceof p.Error) {
      const stack = typeof value.stack === "string" ? native.mapStack(p.toWellFormed(value.stack)) : "";
      return shared.errorText(value) + (stack === "" ? "" : "\n" + stack);
    }
    if (is(p.mapSize, value)) {
      if (depth >= MAX_DEPTH) return "[Map]";
      p.mapEach(value, (element, key) => {
        if (pieces.length < MAX_ITEMS) put(pieces, `${inner(key)} => ${inner(element)}`);
      });
      more(pieces, p.mapSize(value));
      return wrap(`Map(${p.mapSize(value)}) {`, pieces, "}", indent);
    }
    if (is(p.setSize, value)) {
      if (depth >= MAX_DEPTH) return "[Set]";
      p.setEach(value, (element) => {
        if (pieces.length < MAX_ITEMS) put(pieces, inner(element));
      });
      more(pieces, p.setSize(value));
      return wrap(`Set(${p.setSize(value)}) {`, pieces, "}", indent);
    }
    if (value instanceof p.RegExp) return p.regexSource(value);
    if (value instanceof p.Promise) return "Promise {}";
    if (is(p.byteLength, value)) return `ArrayBuffer { byteLength: ${p.byteLength(value)} }`;
    const name = nameOf(value);
    if (depth >= MAX_DEPTH) return `[${name}]`;
    const keys = p.ownKeys(value);
    let count = 0;
    for (let i = 0; i < keys.length; i++) {
      const own = p.getOwnPropertyDescriptor(value, keys[i]);
      if (own === undefined || !own.enumerable) continue;
      if (++count > MAX_ITEMS) continue;
      const key = typeof keys[i] === "symbol" ? `[${p.symbolText(keys[i])}]`
        : p.regexTest(isIdentifier, keys[i]) !== null ? keys[i] : quoted(keys[i]);
      const text = p.hasOwn(own, "value") ? inner(own.value) : own.get === undefined ? "[Setter]" : "[Getter]";
      put(pieces, `${key}: ${text}`);
    }
    more(pieces, count);
    const prefix = name === "Object" ? (p.getPrototypeOf(value) === null ? "[Object: null prototype] " : "") : name + " ";
    return wrap(prefix + "{", pieces, "}", indent);
  };

  const inspect = (value) => show(value, 0, 0, new p.Set());
  shared.inspect = inspect;

  // Like `util.format`: the first text may have placeholders for the others.
  const format = (args) => {
    let out = "";
    let next = 0;
    if (typeof args[0] === "string" && args.length > 1 && p.indexOf(args[0], "%") !== -1) {
      const text = args[0];
      next = 1;
      for (let i = 0; i < text.length; i++) {
        const kind = text[i] === "%" ? text[i + 1] : undefined;
        if (kind === "%") {
          out += "%";
          i++;
        } else if (next < args.length && kind !== undefined && p.indexOf("sdifjoOc", kind) !== -1) {
          const value = args[next++];
          i++;
          if (kind === "s") out += typeof value === "string" ? value : inspect(value);
          else if (kind === "d" || kind === "f") out += typeof value === "bigint" ? inspect(value) : p.numberText(+value);
          else if (kind === "i") out += p.numberText(+value < 0 ? -p.floor(-value) : p.floor(+value));
          else if (kind === "j") out += p.stringify(value);
          else if (kind !== "c") out += inspect(value);
        } else {
          out += text[i];
        }
      }
      if (next < args.length) out += " ";
    }
    for (let i = next; i < args.length; i++) {
      out += (i === next ? "" : " ") + (typeof args[i] === "string" ? args[i] : inspect(args[i]));
    }
    return out;
  };

  let indent = "";
  const print = (fd, text) => {
    const shown = indent === "" ? text : indent + p.join(p.split(text, "\n"), "\n" + indent);
    native.write(fd, p.toWellFormed(shown) + "\n");
  };
  const counts = new Map();
  const clocks = new Map();
  const elapsed = (label) => {
    const begun = p.mapGet(clocks, label);
    return begun === undefined ? undefined : `${label}: ${p.numberText(native.milliseconds() - begun)} ms`;
  };
  offer("console", {
    log(...args) { print(1, format(args)); },
    info(...args) { print(1, format(args)); },
    debug(...args) { print(1, format(args)); },
    dir(value) { print(1, inspect(value)); },
    warn(...args) { print(2, format(args)); },
    error(...args) { print(2, format(args)); },
    trace(...args) { print(2, "Trace: " + format(args) + "\n" + native.mapStack(new p.Error().stack)); },
    assert(condition, ...args) {
      if (!condition) print(2, "Assertion failed" + (args.length === 0 ? "" : ": " + format(args)));
    },
    table(data) {
      print(1, typeof data === "object" && data !== null ? shared.formatOutput(data, "table") : inspect(data));
    },
    group(...args) {
      if (args.length > 0) print(1, format(args));
      indent += "  ";
    },
    groupEnd() { indent = p.slice(indent, 2); },
    count(label = "default") {
      const count = (p.mapGet(counts, label) ?? 0) + 1;
      p.mapSet(counts, label, count);
      print(1, `${label}: ${count}`);
    },
    time(label = "default") { p.mapSet(clocks, label, native.milliseconds()); },
    timeLog(label = "default") { print(1, elapsed(label) ?? `no timer ${label}`); },
    timeEnd(label = "default") {
      print(1, elapsed(label) ?? `no timer ${label}`);
      p.mapDelete(clocks, label);
    },
  });
  shared.endRun = () => { indent = ""; };

  // Whether there is any memory left.
  const hasRoom = () => {
    try {
      return new p.Uint8Array(1 << 20).length > 0;
    } catch {
      return false;
    }
  };

  // Even this check throws for a revoked proxy.
  const isError = (thrown) => {
    try {
      return thrown instanceof p.Error;
    } catch {
      return false;
    }
  };

  // Describes what was thrown, in parts that are certain to be text.
  shared.explain = (thrown) => {
    const parts = { __proto__: null, name: "", message: "", stack: "", cause: "" };
    // Each part separately, so that a broken one does not hide the others.
    const part = (name, tell) => {
      try {
        parts[name] = tell();
      } catch {
        if (name === "message") parts.message = "an error that cannot be read";
      }
    };
    // The engine throws null if it has no memory left for an error.
    if (thrown === null && !hasRoom()) {
      parts.name = "InternalError";
      parts.message = "InternalError: out of memory";
    } else if (isError(thrown)) {
      part("name", () => p.String(thrown.name));
      part("message", () => shared.errorText(thrown));
      part("stack", () => (typeof thrown.stack === "string" ? thrown.stack : ""));
      part("cause", () => (thrown.cause instanceof p.Error ? shared.errorText(thrown.cause) : ""));
    } else {
      part("message", () => "Uncaught " + inspect(thrown));
    }
    const quote = shared.quote;
    return `{"name":${quote(parts.name)},"message":${quote(parts.message)},"stack":${quote(parts.stack)},"cause":${quote(parts.cause)}}`;
  };
})
