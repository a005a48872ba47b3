// expect: introspection
(() => {}).constructor("return 1")();
