// expect: dynamic-code
import { run } from "https://example.org/run.js";
run();
