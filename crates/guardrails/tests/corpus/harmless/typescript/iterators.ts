const range = {
  from: 1,
  to: 4,
  *[Symbol.iterator]() {
    for (let number = this.from; number <= this.to; number++) yield number;
  },
};
console.log([...range], Math.max(...range));
