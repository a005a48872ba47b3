// expect: obfuscation
const key = read_file("key.txt");
globalThis[key]("x");
