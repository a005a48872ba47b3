const text = atob("SGVsbG8=");
console.log(text, btoa("Hello"));
const payload = JSON.parse(atob("eyJhIjoxfQ=="));
console.log(payload.a);
