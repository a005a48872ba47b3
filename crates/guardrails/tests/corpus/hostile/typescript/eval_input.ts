// expect: dynamic-code
const text: string = read_file("sum.txt");
console.log(eval(text));
