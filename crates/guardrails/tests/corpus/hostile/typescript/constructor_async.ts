// expect: introspection
const AsyncFunction = Object.getPrototypeOf(async function () {}).constructor;
new AsyncFunction("return 1")();
