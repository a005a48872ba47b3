// expect: import
const vm = require("node:vm");
new vm.Script(read_file("job.js")).runInNewContext();
