// expect: obfuscation
const letters = ["c", "h"];
const name = letters.reverse().join("") + read_file("rest.txt");
require(name).run();
