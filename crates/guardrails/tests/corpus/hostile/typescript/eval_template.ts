// expect: dynamic-code
const name = read_file("name.txt");
eval(`result = values.${name}`);
