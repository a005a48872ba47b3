// expect: import
import { createRequire } from "module";

const require = createRequire("/");
require("fs");
