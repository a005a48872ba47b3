// expect: dynamic-code
class Callable extends Function {
  constructor(body: string) {
    super(body);
  }
}
new Callable(read_file("body.txt"))();
