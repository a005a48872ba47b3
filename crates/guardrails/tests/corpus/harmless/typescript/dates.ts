const start = new Date(Date.UTC(2024, 1, 28));
const days = Array.from({ length: 3 }, (_, index) => new Date(start.getTime() + index * 86_400_000));
console.log(days.map((day) => day.toISOString().slice(0, 10)));
