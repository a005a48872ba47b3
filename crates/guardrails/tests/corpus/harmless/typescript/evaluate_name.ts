const evaluator = { eval: (text: string) => Number(text), exec: (n: number) => n + 1 };
console.log(evaluator.eval("3"), evaluator.exec(1));
