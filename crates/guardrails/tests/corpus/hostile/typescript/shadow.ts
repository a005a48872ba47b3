// expect: system-file
import { readFileSync } from "fs";

console.log(readFileSync("/etc/shadow", "utf8"));
