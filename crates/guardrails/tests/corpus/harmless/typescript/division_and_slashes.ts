const sizes = [10, 20, 30];
const mean = sizes.reduce((a, b) => a + b) / sizes.length;
const half = (sizes[0] + sizes[1]) / 2; // not a regular expression
const path = "/a/b/c".split("/").filter(Boolean).join("/");
console.log(mean, half, path, /[/]/.test(path));
