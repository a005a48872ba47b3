for (const value of [1, "a", null, [], {}, () => 1, undefined]) {
  console.log(typeof value, Array.isArray(value), value?.constructor?.name);
}
console.log(typeof eval, typeof Function);
