// expect: dynamic-code
const code = `console.log(${read_file("x.txt")})`;
setTimeout(code, 10);
