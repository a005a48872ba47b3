// expect: obfuscation
setTimeout(atob("Y29uc29sZS5sb2coMSk="), 0);
