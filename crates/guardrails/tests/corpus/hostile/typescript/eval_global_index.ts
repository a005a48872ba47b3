// expect: dynamic-code
globalThis["ev" + "al"](read_file("job.js"));
