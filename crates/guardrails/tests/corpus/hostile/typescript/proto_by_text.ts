// expect: introspection
const key = "__pro" + "to__";
const object: any = {};
object[key].polluted = 1;
