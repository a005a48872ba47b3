// expect: call
function list(module: any) {
  return module.execSync("ls -la /").toString();
}
console.log(list(globalThis));
