// expect: introspection
const Make = "".sub.constructor;
Make("return 1")();
