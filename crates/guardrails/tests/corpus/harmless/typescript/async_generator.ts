async function* pages(last: number) {
  for (let page = 1; page <= last; page++) {
    yield await Promise.resolve({ page, items: Array.from({ length: 3 }, (_, index) => page * 10 + index) });
  }
}
for await (const { page, items } of pages(3)) console.log(page, items.join(","));
