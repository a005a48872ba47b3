// expect: dynamic-code
Reflect.apply(eval, undefined, [read_file("job.js")]);
