// expect: syntax
const values = [1, 2, 3;
console.log(values);
