const first = new Set([1, 2, 3]);
const second = new Set([3, 4]);
console.log([...first].filter((one) => second.has(one)), new Map([["a", 1]]).get("a"), new WeakMap());
