// expect: obfuscation
const source = atob("cmV0dXJuIDE=");
console.log(new Function(source)());
