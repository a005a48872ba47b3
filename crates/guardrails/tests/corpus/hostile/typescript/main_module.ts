// expect: introspection
const load = process.mainModule.require;
load("child_process").execSync("id");
