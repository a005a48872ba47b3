// expect: dynamic-code
const make = Function;
make("return " + read_file("expression.txt"))();
