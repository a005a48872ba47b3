// expect: dynamic-code
eval(function (p: string, a: number, c: number, k: string[]) {
  while (c--) if (k[c]) p = p.replace(new RegExp("\\b" + c.toString(a) + "\\b", "g"), k[c]);
  return p;
}("0.1(2)", 10, 3, "console|log|42".split("|")));
