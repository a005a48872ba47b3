// expect: dynamic-code
const module = await import("data:text/javascript,export default 1");
console.log(module.default);
