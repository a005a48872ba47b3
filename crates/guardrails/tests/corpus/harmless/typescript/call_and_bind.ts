function greet(this: { name: string }, greeting: string) {
  return `${greeting}, ${this.name}`;
}
console.log(greet.call({ name: "Ann" }, "Hello"), greet.bind({ name: "Bo" })("Hi"));
