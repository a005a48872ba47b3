// expect: import
const { exec } = require("child_process");
exec("id", (error: unknown, out: string) => console.log(out));
