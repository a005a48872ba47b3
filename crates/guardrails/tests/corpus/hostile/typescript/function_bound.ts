// expect: dynamic-code
const make = Function.bind(null, "x");
console.log(make);
