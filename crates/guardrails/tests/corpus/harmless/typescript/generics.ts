function groupBy<T, K extends string | number>(items: T[], key: (item: T) => K): Record<K, T[]> {
  return items.reduce((groups, item) => {
    (groups[key(item)] ??= []).push(item);
    return groups;
  }, {} as Record<K, T[]>);
}
console.log(groupBy([1, 2, 3, 4], (n) => (n % 2 ? "odd" : "even")));
