type Event = { kind: "add"; value: number } | { kind: "clear" };
function reduce(total: number, event: Event): number {
  switch (event.kind) {
    case "add":
      return total + event.value;
    case "clear":
      return 0;
  }
}
console.log([{ kind: "add", value: 2 }, { kind: "clear" }, { kind: "add", value: 5 }].reduce(reduce as any, 0));
