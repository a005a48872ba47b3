// expect: call
const command = new Deno.Command("id");
console.log(command.outputSync());
