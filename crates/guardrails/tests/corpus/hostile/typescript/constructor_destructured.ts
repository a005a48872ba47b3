// expect: introspection
const { constructor: Make } = read_file;
Make("return 1")();
