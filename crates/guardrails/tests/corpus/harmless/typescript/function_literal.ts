const double = new Function("n", "return n * 2");
console.log(double(21));
