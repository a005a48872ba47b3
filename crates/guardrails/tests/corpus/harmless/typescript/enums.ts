enum Level { Low = 1, Middle = Low << 1, High = "high".length }
const names = Object.keys(Level).filter((key) => isNaN(Number(key)));
console.log(names, Level[2]);
