function* fibonacci(): Generator<number> {
  let [a, b] = [0, 1];
  while (true) {
    yield a;
    [a, b] = [b, a + b];
  }
}
const found: number[] = [];
for (const number of fibonacci()) {
  if (number > 1000) break;
  found.push(number);
}
console.log(found);
