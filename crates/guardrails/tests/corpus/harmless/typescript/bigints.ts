let factorial = 1n;
for (let number = 1n; number <= 30n; number++) factorial *= number;
console.log(factorial.toString().length, BigInt.asUintN(64, -1n));
