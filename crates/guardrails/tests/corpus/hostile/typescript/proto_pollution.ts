// expect: introspection
const target: any = {};
target.__proto__.isAdmin = true;
console.log(({} as any).isAdmin);
