const merge = (one: any, other: any): any => {
  for (const key of Object.keys(other)) {
    if (key === "__proto__" || key === "constructor") continue;
    one[key] = other[key] && typeof other[key] === "object" ? merge(one[key] ?? {}, other[key]) : other[key];
  }
  return one;
};
console.log(merge({ a: { b: 1 } }, { a: { c: 2 } }));
