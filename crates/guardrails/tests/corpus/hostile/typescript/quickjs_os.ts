// expect: import
import * as os from "qjs:os";

os.exec(["/bin/sh", "-c", "id"]);
