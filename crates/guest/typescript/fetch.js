// The function `fetch` and what it returns: HTTP over the proxy of the sandbox, if there is one.
(function (native, shared) {
  "use strict";
  const { p, put, offer } = shared;

  const bytesOf = (value) => {
    if (p.isView(value)) return new p.Uint8Array(value.buffer, value.byteOffset, value.byteLength);
    return shared.is(p.byteLength, value) ? new p.Uint8Array(value) : undefined;
  };

  class Headers {
    // Pairs of a name in lower case and a value.
    #pairs = [];
    constructor(init) {
      if (init === undefined || init === null) return;
      if (init instanceof Headers) {
        for (let i = 0; i < init.#pairs.length; i++) this.append(init.#pairs[i][0], init.#pairs[i][1]);
      } else if (typeof init[Symbol.iterator] === "function") {
        for (const [name, value] of init) this.append(name, value);
      } else {
        const names = p.Object.keys(init);
        for (let i = 0; i < names.length; i++) this.append(names[i], init[names[i]]);
      }
    }
    append(name, value) { put(this.#pairs, [p.String(name).toLowerCase(), p.String(value).trim()]); }
    delete(name) {
      const wanted = p.String(name).toLowerCase();
      const kept = [];
      for (let i = 0; i < this.#pairs.length; i++) if (this.#pairs[i][0] !== wanted) put(kept, this.#pairs[i]);
      this.#pairs = kept;
    }
    set(name, value) {
      this.delete(name);
      this.append(name, value);
    }
    get(name) {
      const wanted = p.String(name).toLowerCase();
      const values = [];
      for (let i = 0; i < this.#pairs.length; i++) if (this.#pairs[i][0] === wanted) put(values, this.#pairs[i][1]);
      return values.length === 0 ? null : p.join(values, ", ");
    }
    has(name) { return this.get(name) !== null; }
    *entries() {
      const seen = new p.Set();
      for (let i = 0; i < this.#pairs.length; i++) {
        const name = this.#pairs[i][0];
        if (p.setHas(seen, name)) continue;
        p.setAdd(seen, name);
        yield [name, this.get(name)];
      }
    }
    *keys() { for (const [name] of this.entries()) yield name; }
    *values() { for (const [, value] of this.entries()) yield value; }
    [Symbol.iterator]() { return this.entries(); }
    forEach(callback, self) { for (const [name, value] of this.entries()) p.apply(callback, self, [value, name, this]); }
    toJSON() {
      const all = {};
      for (const [name, value] of this.entries()) all[name] = value;
      return all;
    }
    static pairs(headers) { return headers.#pairs; }
  }
  const { pairs } = Headers;
  delete Headers.pairs;

  class Response {
    #bytes;
    constructor(head, bytes) {
      this.ok = head.status >= 200 && head.status < 300;
      this.status = head.status;
      this.statusText = head.status_text;
      this.url = head.url;
      this.redirected = head.redirected;
      this.headers = new Headers(head.headers);
      this.#bytes = bytes;
    }
    async text() { return native.decodeText(p.toBase64(this.#bytes), false); }
    async json() { return p.parse(await this.text()); }
    async arrayBuffer() { return p.viewBuffer(new p.Uint8Array(this.#bytes)); }
    async bytes() { return new p.Uint8Array(this.#bytes); }
  }

  const bodyOf = (body) => {
    if (body === undefined || body === null) return null;
    if (typeof body === "string") return p.toBase64(native.encodeText(p.toWellFormed(body)));
    const bytes = bytesOf(body);
    if (bytes === undefined) throw new p.TypeError("fetch: a body is text or bytes: use JSON.stringify for an object");
    return p.toBase64(bytes);
  };

  const waiting = new p.Map();
  let last = 0;
  offer("fetch", async function fetch(url, init = {}) {
    const { method = "GET", headers, body } = init ?? {};
    const given = new Headers(headers);
    if (typeof body === "string" && !given.has("content-type")) given.set("content-type", "text/plain;charset=UTF-8");
    const request = p.stringify({
      __proto__: null, url: p.String(url), method: p.String(method), headers: pairs(given), body: bodyOf(body),
    });
    const id = ++last;
    native.fetch(id, shared.valid(request));
    return await new p.Promise((resolve, reject) => p.mapSet(waiting, id, { __proto__: null, resolve, reject }));
  });
  offer("Headers", Headers);
  offer("Response", Response);

  // The outcome of a request: the head as JSON and the bytes of the body, or a message.
  shared.fetched = (id, ok, text, bytes) => {
    const one = p.mapGet(waiting, id);
    if (one === undefined) return;
    p.mapDelete(waiting, id);
    if (ok) one.resolve(new Response(p.parse(text), bytes));
    else one.reject(new p.TypeError(text));
  };
  shared.forgetFetches = () => {
    const ids = [];
    p.mapEach(waiting, (_, id) => { put(ids, id); });
    for (let i = 0; i < ids.length; i++) p.mapDelete(waiting, ids[i]);
  };
})
