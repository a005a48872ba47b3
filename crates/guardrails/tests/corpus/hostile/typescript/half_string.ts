// expect: syntax
const name = "unfinished;
console.log(name);
