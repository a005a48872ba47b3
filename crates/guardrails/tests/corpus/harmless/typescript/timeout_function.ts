function later(callback: () => void, delay = 10): void {
  setTimeout(callback, delay);
}
later(() => console.log("later"));
