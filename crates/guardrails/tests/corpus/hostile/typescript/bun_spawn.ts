// expect: call
Bun.spawn(["bash", "-c", "id"]);
