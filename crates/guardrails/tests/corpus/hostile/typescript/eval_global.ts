// expect: dynamic-code
globalThis.eval(read_file("job.js"));
