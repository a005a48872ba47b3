// Helpers that code may use without importing them, as in Python, with both spellings; and the few parts of the web
// platform that small programs expect.
(function (native, shared) {
  "use strict";
  const { p, put, offer } = shared;

  const bytesOf = (value) => {
    if (p.isView(value)) return new p.Uint8Array(value.buffer, value.byteOffset, value.byteLength);
    return shared.is(p.byteLength, value) ? new p.Uint8Array(value) : undefined;
  };

  // Indented JSON, by the rules for results.
  const json = (data) => p.stringify(p.parse(shared.toJson(data)), null, 2);

  const readFile = (path) => native.readText(p.String(path));
  const readBytes = (path) => native.readBytes(p.String(path));
  const writeFile = (path, content) => {
    const bytes = bytesOf(content);
    const length = bytes === undefined
      ? native.writeText(p.String(path), p.toWellFormed(typeof content === "string" ? content : json(content)))
      : native.writeBytes(p.String(path), p.toBase64(bytes));
    return `Successfully wrote ${length} bytes to ${path}`;
  };
  const listFiles = (path = ".", pattern = "*") => native.listFiles(p.String(path), p.String(pattern));
  const deleteFile = (path) => {
    native.deleteFile(p.String(path));
    return `Deleted ${path}`;
  };

  const MISSING = { __proto__: null };
  const fieldOf = (item, path) => {
    const has = (value, name) => value !== null && typeof value === "object" && name in value;
    if (has(item, path)) return item[path];
    const names = p.split(path, ".");
    for (let i = 0; i < names.length; i++) {
      if (!has(item, names[i])) return MISSING;
      item = item[names[i]];
    }
    return item;
  };

  const filterByField = (items, field, value) => {
    const matches = typeof value === "function" ? value : (found) => found === value;
    const kept = [];
    for (const item of items) {
      const found = fieldOf(item, field);
      if (found !== MISSING && matches(found)) put(kept, item);
    }
    return kept;
  };

  const columnsOf = (items) => {
    const names = new p.Set();
    for (const item of items) for (const key of p.Object.keys(item)) p.setAdd(names, key);
    return [...names];
  };
  const isRecord = (item) => item !== null && typeof item === "object" && !p.isArray(item);

  const summarizeList = (items, maxItems = 5) => {
    const everything = [...items];
    const shown = everything.slice(0, maxItems > 0 ? maxItems : 0);
    const summary = { count: everything.length, items: shown, remaining: everything.length - shown.length };
    const fields = columnsOf(shown.filter(isRecord));
    if (fields.length > 0) summary.fields = fields;
    return summary;
  };

  const numberOf = (value) => {
    if (typeof value === "bigint") return p.Number(value);
    if (typeof value === "string" && value.trim() !== "") value = +value;
    return typeof value === "number" && value === value ? value : undefined;
  };

  const aggregateStats = (items, field) => {
    const numbers = [];
    let missing = 0;
    for (const item of items) {
      const found = fieldOf(item, field);
      const number = found === MISSING ? undefined : numberOf(found);
      if (number === undefined) missing++;
      else put(numbers, number);
    }
    const stats = { field, count: numbers.length, missing };
    if (numbers.length > 0) {
      const sorted = [...numbers].sort((a, b) => a - b);
      const sum = numbers.reduce((total, number) => total + number, 0);
      const mean = sum / numbers.length;
      const middle = p.floor(sorted.length / 2);
      const spread = numbers.reduce((total, number) => total + (number - mean) ** 2, 0);
      stats.sum = sum;
      stats.mean = mean;
      stats.median = sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
      stats.min = sorted[0];
      stats.max = sorted[sorted.length - 1];
      stats.stdev = numbers.length > 1 ? (spread / (numbers.length - 1)) ** 0.5 : 0;
    }
    return stats;
  };

  const cell = (value) => {
    if (value === null || value === undefined) return "";
    return typeof value === "string" ? value : typeof value === "object" ? shared.toJson(value) : p.String(value);
  };
  const lines = (data) => {
    if (typeof data === "string") return data;
    if (data !== null && typeof data === "object" && typeof data[Symbol.iterator] === "function") {
      return [...data].map((item) => (isRecord(item) ? lines(item).split("\n").join(", ") : cell(item))).join("\n");
    }
    if (isRecord(data)) return p.Object.keys(data).map((key) => `${key}: ${cell(data[key])}`).join("\n");
    return p.String(data);
  };
  const grid = (data) => {
    let items;
    if (data !== null && typeof data === "object" && typeof data[Symbol.iterator] === "function") items = [...data];
    else if (isRecord(data)) items = p.Object.keys(data).map((key) => ({ key, value: data[key] }));
    else items = [data];
    items = items.map((item) => (isRecord(item) ? item : { value: item }));
    const columns = columnsOf(items);
    return [columns, items.map((item) => columns.map((column) => cell(item[column])))];
  };
  const formatOutput = (data, format = "json") => {
    if (format === "json") return json(data);
    if (format === "text") return lines(data);
    if (format !== "table" && format !== "markdown" && format !== "csv") {
      throw new p.RangeError(`no such format: '${format}'; use json, text, table, markdown or csv`);
    }
    const [columns, rows] = grid(data);
    if (format === "csv") {
      const field = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
      return [columns, ...rows].map((row) => row.map(field).join(",") + "\n").join("");
    }
    if (format === "markdown") {
      const clean = rows.map((row) => row.map((text) => text.replaceAll("|", "\\|").replaceAll("\n", " ")));
      return [columns, columns.map(() => "---"), ...clean].map((row) => `| ${row.join(" | ")} |`).join("\n");
    }
    const clean = rows.map((row) => row.map((text) => text.replaceAll("\n", " ")));
    const widths = columns.map((column, i) => clean.reduce((most, row) => (row[i].length > most ? row[i].length : most), column.length));
    const rule = widths.map((width) => "-".repeat(width));
    return [columns, rule, ...clean].map((row) => row.map((text, i) => text.padEnd(widths[i])).join("  ").trimEnd()).join("\n");
  };
  shared.formatOutput = formatOutput;

  const helpers = {
    read_file: readFile, readFile, read_bytes: readBytes, readBytes, write_file: writeFile, writeFile,
    list_files: listFiles, listFiles, delete_file: deleteFile, deleteFile,
    filter_by_field: filterByField, filterByField, summarize_list: summarizeList, summarizeList,
    aggregate_stats: aggregateStats, aggregateStats, format_output: formatOutput, formatOutput,
  };
  for (const name of p.Object.keys(helpers)) offer(name, helpers[name]);

  offer("TextEncoder", class TextEncoder {
    get encoding() { return "utf-8"; }
    encode(text = "") { return native.encodeText(p.toWellFormed(p.String(text))); }
  });
  offer("TextDecoder", class TextDecoder {
    #fatal;
    constructor(label = "utf-8", options = {}) {
      const name = p.String(label).toLowerCase();
      if (name !== "utf-8" && name !== "utf8") throw new p.RangeError(`only utf-8 can be decoded here, not '${label}'`);
      this.#fatal = options.fatal === true;
    }
    get encoding() { return "utf-8"; }
    get fatal() { return this.#fatal; }
    decode(data = new p.Uint8Array(0)) {
      const bytes = bytesOf(data);
      if (bytes === undefined) throw new p.TypeError("only bytes can be decoded");
      return native.decodeText(p.toBase64(bytes), this.#fatal);
    }
  });
  offer("btoa", function btoa(text) {
    const plain = p.String(text);
    const bytes = new p.Uint8Array(plain.length);
    for (let i = 0; i < plain.length; i++) {
      const code = p.codeAt(plain, i);
      if (code > 255) throw new p.RangeError("btoa takes characters up to U+00FF: encode text with TextEncoder first");
      bytes[i] = code;
    }
    return p.toBase64(bytes);
  });
  offer("atob", function atob(text) {
    const bytes = native.fromBase64(p.String(text));
    let out = "";
    for (let i = 0; i < bytes.length; i++) out += p.String.fromCharCode(bytes[i]);
    return out;
  });
  offer("crypto", {
    randomUUID() { return native.uuid(); },
    getRandomValues(view) {
      const bytes = bytesOf(view);
      if (bytes === undefined) throw new p.TypeError("getRandomValues fills a typed array");
      bytes.set(native.randomBytes(bytes.length));
      return view;
    },
  });

  const clone = (value, seen) => {
    if (typeof value === "function" || typeof value === "symbol") {
      throw new p.TypeError(`a ${typeof value} cannot be cloned`);
    }
    if (value === null || typeof value !== "object") return value;
    const known = p.mapGet(seen, value);
    if (known !== undefined) return known;
    const keep = (copy) => {
      p.mapSet(seen, value, copy);
      return copy;
    };
    if (shared.is(p.getTime, value)) return keep(new p.Date(p.getTime(value)));
    if (value instanceof p.RegExp) return keep(new p.RegExp(value.source, value.flags));
    if (shared.is(p.byteLength, value)) return keep(value.slice(0));
    if (p.isView(value) && shared.is(p.viewLength, value)) return keep(value.slice());
    if (shared.is(p.mapSize, value)) {
      const copy = keep(new p.Map());
      p.mapEach(value, (element, key) => { p.mapSet(copy, clone(key, seen), clone(element, seen)); });
      return copy;
    }
    if (shared.is(p.setSize, value)) {
      const copy = keep(new p.Set());
      p.setEach(value, (element) => { p.setAdd(copy, clone(element, seen)); });
      return copy;
    }
    if (value instanceof p.Error) {
      const copy = keep(new p.Error(value.message));
      copy.name = value.name;
      return copy;
    }
    const copy = keep(p.isArray(value) ? new p.Array(value.length) : {});
    for (const key of p.Object.keys(value)) copy[key] = clone(value[key], seen);
    return copy;
  };
  offer("structuredClone", function structuredClone(value) { return clone(value, new p.Map()); });
  if (globalThis.queueMicrotask === undefined) {
    offer("queueMicrotask", function queueMicrotask(callback) { p.then(p.Promise.resolve(), callback); });
  }
})
