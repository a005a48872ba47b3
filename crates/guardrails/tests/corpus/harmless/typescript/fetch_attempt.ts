try {
  const response = await fetch("https://example.org/data.json");
  console.log(await response.json());
} catch (error) {
  console.log("no network");
}
