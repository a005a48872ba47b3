// expect: dynamic-code
const bytes = new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]);
const { instance } = await WebAssembly.instantiate(bytes);
console.log(instance.exports);
