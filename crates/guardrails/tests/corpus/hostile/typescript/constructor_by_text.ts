// expect: introspection
const text = "constr" + "uctor";
[][text][text]("return 1")();
