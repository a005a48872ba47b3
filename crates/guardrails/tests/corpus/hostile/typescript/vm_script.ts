// expect: import
import vm from "vm";

vm.runInThisContext(read_file("job.js"));
