outer: for (let row = 0; row < 5; row++) {
  for (let column = 0; column < 5; column++) {
    if (row * column === 6) {
      console.log(row, column);
      break outer;
    }
  }
}
