class Point {
  constructor(readonly x: number, readonly y: number) {}
  move(dx: number): Point {
    return new (this.constructor as typeof Point)(this.x + dx, this.y);
  }
}
console.log(new Point(1, 2).move(3).x);
