const handlers: Record<string, (n: number) => number> = { double: (n) => n * 2, square: (n) => n * n };
const names = ["double", "square"];
for (const name of names) console.log(handlers[name](4));
const matrix = [[1, 2], [3, 4]];
for (let row = 0; row < 2; row++) for (let column = 0; column < 2; column++) console.log(matrix[row][column]);
