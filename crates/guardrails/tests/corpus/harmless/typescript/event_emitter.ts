class Emitter<T extends Record<string, unknown>> {
  private listeners: { [K in keyof T]?: ((value: T[K]) => void)[] } = {};
  on<K extends keyof T>(event: K, listener: (value: T[K]) => void) {
    (this.listeners[event] ||= []).push(listener);
  }
  emit<K extends keyof T>(event: K, value: T[K]) {
    this.listeners[event]?.forEach((listener) => listener(value));
  }
}
const emitter = new Emitter<{ done: number }>();
emitter.on("done", (count) => console.log("done", count));
emitter.emit("done", 3);
