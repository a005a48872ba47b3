// expect: dynamic-code
const run = eval;
run(read_file("job.js"));
