type Token = string | number;
const tokens = "2 * ( 3 + 4 )".split(" ").map((one): Token => (/^\d+$/.test(one) ? Number(one) : one));
function factor(): number {
  const token = tokens.shift();
  if (token !== "(") return token as number;
  const value = sum();
  tokens.shift();
  return value;
}
function product(): number {
  let value = factor();
  while (tokens[0] === "*" || tokens[0] === "/") value = tokens.shift() === "*" ? value * factor() : value / factor();
  return value;
}
function sum(): number {
  let value = product();
  while (tokens[0] === "+" || tokens[0] === "-") value = tokens.shift() === "+" ? value + product() : value - product();
  return value;
}
result = sum();
