// expect: import
import { execSync } from "child_process";

console.log(execSync("id").toString());
