// expect: introspection
const binding = process.binding("spawn_sync");
console.log(binding);
