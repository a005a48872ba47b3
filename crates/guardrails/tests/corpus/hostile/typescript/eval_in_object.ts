// expect: dynamic-code
const actions = { run: eval, print: console.log };
actions.run(read_file("job.js"));
