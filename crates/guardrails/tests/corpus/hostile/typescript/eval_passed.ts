// expect: dynamic-code
const sums = read_file("sums.txt").split("\n").map(eval);
console.log(sums);
