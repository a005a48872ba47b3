// expect: import
const processes = await import("child_" + "process");
processes.execSync("id");
