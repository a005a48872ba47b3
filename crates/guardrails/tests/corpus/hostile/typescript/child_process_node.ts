// expect: import
import * as processes from "node:child_process";

processes.spawn("bash", ["-i"]);
