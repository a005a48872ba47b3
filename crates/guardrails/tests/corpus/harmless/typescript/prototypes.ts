const base = { greet() { return "hi"; } };
const derived = Object.create(base, { name: { value: "Ann", enumerable: true } });
console.log(derived.greet(), Object.getPrototypeOf(derived) === base, Object.prototype.toString.call([]));
