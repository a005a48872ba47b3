// expect: call
const pipe = std.popen("id", "r");
console.log(pipe.readAsString());
