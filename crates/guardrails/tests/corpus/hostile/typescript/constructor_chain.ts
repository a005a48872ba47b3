// expect: introspection
const run = [].constructor.constructor("return globalThis");
console.log(run());
