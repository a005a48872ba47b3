// expect: import
import processes = require("child_process");

processes.fork("job.js");
