// expect: dynamic-code
const add = new Function("a", "b", read_file("body.txt"));
console.log(add(1, 2));
