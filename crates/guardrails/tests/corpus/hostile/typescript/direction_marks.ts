// expect: obfuscation
const level = "user";
if (level !== "user‮ ⁦// check⁩ ⁦") {
  console.log("admin");
}
