const pipe = <T>(...steps: ((value: T) => T)[]) => (value: T) => steps.reduce((current, step) => step(current), value);
console.log(pipe<string>((text) => text.trim(), (text) => text.toUpperCase())("  boat "));
