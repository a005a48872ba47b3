function memoize<A extends unknown[], R>(work: (...values: A) => R): (...values: A) => R {
  const known = new Map<string, R>();
  return (...values) => {
    const key = JSON.stringify(values);
    if (!known.has(key)) known.set(key, work.apply(null, values));
    return known.get(key)!;
  };
}
const slow = memoize((n: number): number => (n < 2 ? n : slow(n - 1) + slow(n - 2)));
console.log(slow(50));
