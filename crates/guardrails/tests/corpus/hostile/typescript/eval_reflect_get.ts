// expect: dynamic-code
Reflect.get(globalThis, "eval")(read_file("job.js"));
