abstract class Shape {
  abstract area(): number;
  describe(): string {
    return `${this.constructor.name} of ${this.area().toFixed(2)}`;
  }
}

class Circle extends Shape {
  #radius: number;
  constructor(radius: number) {
    super();
    this.#radius = radius;
  }
  area() {
    return Math.PI * this.#radius ** 2;
  }
}

console.log(new Circle(2).describe());
