// expect: dynamic-code
const { eval: calculate } = globalThis;
calculate(read_file("sum.txt"));
