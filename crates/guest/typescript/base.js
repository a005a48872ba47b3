// The base of the other files in this folder: functions of the language as they were before any user code ran, timers,
// and calls to the host. User code shares this engine and may replace every built-in method, so nothing here looks one
// up when it is used.
(function (native, shared) {
  "use strict";
  const { apply, ownKeys, getPrototypeOf, getOwnPropertyDescriptor } = Reflect;
  const { create, defineProperty, freeze, hasOwn } = Object;
  const { stringify, parse } = JSON;
  const unbound = (method) => (self, ...args) => apply(method, self, args);
  const getter = (prototype, key) => unbound(getOwnPropertyDescriptor(prototype, key).get);
  const typed = getPrototypeOf(Uint8Array.prototype);

  const p = {
    __proto__: null,
    apply, ownKeys, getPrototypeOf, getOwnPropertyDescriptor, create, defineProperty, freeze, hasOwn, stringify, parse, unbound,
    isArray: Array.isArray,
    isFinite: Number.isFinite,
    isInteger: Number.isInteger,
    isView: ArrayBuffer.isView,
    floor: Math.floor,
    now: Date.now,
    objectPrototype: Object.prototype,
    String, Number, Map, Set, Date, RegExp, Error, Promise, Uint8Array, TypeError, RangeError, Array, Object,
    toISOString: unbound(Date.prototype.toISOString),
    getTime: unbound(Date.prototype.getTime),
    mapSize: getter(Map.prototype, "size"),
    mapEach: unbound(Map.prototype.forEach),
    mapGet: unbound(Map.prototype.get),
    mapSet: unbound(Map.prototype.set),
    mapDelete: unbound(Map.prototype.delete),
    setSize: getter(Set.prototype, "size"),
    setEach: unbound(Set.prototype.forEach),
    setHas: unbound(Set.prototype.has),
    setAdd: unbound(Set.prototype.add),
    setDelete: unbound(Set.prototype.delete),
    viewLength: getter(typed, "length"),
    viewBuffer: getter(typed, "buffer"),
    viewOffset: getter(typed, "byteOffset"),
    viewTag: getter(typed, Symbol.toStringTag),
    byteLength: getter(ArrayBuffer.prototype, "byteLength"),
    regexSource: unbound(RegExp.prototype.toString),
    regexTest: unbound(RegExp.prototype.exec),
    symbolText: unbound(Symbol.prototype.toString),
    bigintText: unbound(BigInt.prototype.toString),
    numberText: unbound(Number.prototype.toString),
    numberValue: unbound(Number.prototype.valueOf),
    stringValue: unbound(String.prototype.valueOf),
    booleanValue: unbound(Boolean.prototype.valueOf),
    slice: unbound(String.prototype.slice),
    split: unbound(String.prototype.split),
    indexOf: unbound(String.prototype.indexOf),
    codeAt: unbound(String.prototype.charCodeAt),
    repeat: unbound(String.prototype.repeat),
    padEnd: unbound(String.prototype.padEnd),
    isWellFormed: unbound(String.prototype.isWellFormed),
    toWellFormed: unbound(String.prototype.toWellFormed),
    join: unbound(Array.prototype.join),
    sort: unbound(Array.prototype.sort),
    then: unbound(Promise.prototype.then),
    isEnumerable: unbound(Object.prototype.propertyIsEnumerable),
    viewSlice: unbound(typed.subarray),
    toBase64: unbound(Uint8Array.prototype.toBase64),
  };
  shared.p = p;

  // Functions that format stack traces get the functions in them, and user code must not get those of this runner.
  defineProperty(Error, "prepareStackTrace", {
    __proto__: null, get: () => undefined, set: () => {}, enumerable: false, configurable: false,
  });

  // Adds an array element that no setter on Array.prototype can intercept.
  const put = (array, value) => defineProperty(array, array.length, {
    __proto__: null, value, writable: true, enumerable: true, configurable: true,
  });
  shared.put = put;

  // Defines a global that code may replace.
  const offer = (name, value) => defineProperty(globalThis, name, {
    __proto__: null, value, writable: true, enumerable: false, configurable: true,
  });
  shared.offer = offer;

  // Replaces lone surrogates in text with a visible escape such as \udc80, as in Python.
  shared.valid = (text) => {
    if (p.isWellFormed(text)) return text;
    let out = "";
    for (let i = 0; i < text.length; i++) {
      const code = p.codeAt(text, i);
      const lead = code >= 0xd800 && code < 0xdc00;
      const next = lead && i + 1 < text.length ? p.codeAt(text, i + 1) : 0;
      if (lead && next >= 0xdc00 && next < 0xe000) {
        out += p.slice(text, i, i + 2);
        i++;
      } else if (code >= 0xd800 && code < 0xe000) {
        out += "\\u" + p.numberText(code, 16);
      } else {
        out += text[i];
      }
    }
    return out;
  };

  // The variable `result`: it is the result of this run if the run has assigned it.
  const result = { __proto__: null, value: undefined, assigned: false };
  const watchResult = () => defineProperty(globalThis, "result", {
    __proto__: null,
    get: () => result.value,
    set: (value) => {
      result.value = value;
      result.assigned = true;
    },
    enumerable: true,
    configurable: true,
  });
  watchResult();
  shared.beginRun = () => {
    const own = getOwnPropertyDescriptor(globalThis, "result");
    // A function with that name, or code that uses defineProperty, has replaced it.
    if (own === undefined || !hasOwn(own, "set") || own.set === undefined) {
      result.value = own !== undefined && hasOwn(own, "value") ? own.value : undefined;
      try {
        watchResult();
      } catch {
        // The property is read-only, so it is not the result of any later run.
      }
    }
    result.assigned = false;
  };
  shared.takeResult = (last, hasLast) => {
    const own = getOwnPropertyDescriptor(globalThis, "result");
    if (own !== undefined && hasOwn(own, "value")) return { __proto__: null, value: own.value };
    if (result.assigned) return { __proto__: null, value: result.value };
    return { __proto__: null, value: hasLast ? last : undefined };
  };

  // Timers: the loop outside knows their due times, and this table their callbacks.
  const timers = new Map();
  let lastTimer = 0;
  const start = (callback, delay, args, repeats) => {
    if (typeof callback !== "function") throw new p.TypeError("a timer needs a function to call");
    const milliseconds = +delay > 0 ? +delay : 0;
    const id = ++lastTimer;
    p.mapSet(timers, id, { __proto__: null, callback, args, milliseconds, repeats });
    native.setTimer(id, milliseconds);
    return id;
  };
  const stop = (id) => {
    if (p.mapDelete(timers, id)) native.clearTimer(id);
  };
  offer("setTimeout", function setTimeout(callback, delay, ...args) { return start(callback, delay, args, false); });
  offer("setInterval", function setInterval(callback, delay, ...args) { return start(callback, delay, args, true); });
  offer("setImmediate", function setImmediate(callback, ...args) { return start(callback, 0, args, false); });
  offer("clearTimeout", function clearTimeout(id) { stop(id); });
  offer("clearInterval", function clearInterval(id) { stop(id); });
  offer("clearImmediate", function clearImmediate(id) { stop(id); });
  shared.fire = (id) => {
    const timer = p.mapGet(timers, id);
    if (timer === undefined) return;
    if (timer.repeats) native.setTimer(id, timer.milliseconds);
    else p.mapDelete(timers, id);
    p.apply(timer.callback, undefined, timer.args);
  };

  // Calls to the host, which are answered in any order.
  const calls = new Map();
  let lastCall = 0;
  shared.ask = (method, params) => {
    const text = stringify(params);
    return new p.Promise((resolve, reject) => {
      const id = ++lastCall;
      p.mapSet(calls, id, { __proto__: null, resolve, reject });
      native.call(id, method, shared.valid(text));
    });
  };
  shared.answer = (id, ok, text) => {
    const waiting = p.mapGet(calls, id);
    if (waiting === undefined) return;
    p.mapDelete(calls, id);
    const value = parse(text);
    if (ok) waiting.resolve(value);
    else waiting.reject(value);
  };

  // After a failed run, nothing of it may continue in the next one.
  shared.forget = () => {
    const drop = (table) => {
      const keys = [];
      p.mapEach(table, (_, key) => { put(keys, key); });
      for (let i = 0; i < keys.length; i++) p.mapDelete(table, keys[i]);
    };
    drop(timers);
    drop(calls);
  };
})
