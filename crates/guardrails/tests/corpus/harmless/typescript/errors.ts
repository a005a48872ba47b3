class NotFound extends Error {
  constructor(readonly key: string) {
    super(`not found: ${key}`);
    this.name = new.target.name;
  }
}
try {
  throw new NotFound("x");
} catch (error) {
  console.log(error instanceof NotFound, (error as Error).stack?.split("\n").length);
} finally {
  console.log("done");
}
