const letters = Array.from({ length: 26 }, (_, index) => String.fromCharCode(97 + index));
console.log(letters.join(""), [..."abc"].map((one) => one.codePointAt(0)));
