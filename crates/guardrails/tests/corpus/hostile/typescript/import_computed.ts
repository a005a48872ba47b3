// expect: obfuscation
const name = read_file("module.txt").trim();
const module = await import(name);
module.default();
