// expect: dynamic-code
eval.call(null, read_file("job.js"));
