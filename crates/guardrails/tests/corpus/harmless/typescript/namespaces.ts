namespace Units {
  export const factor = 1.609344;
  export function kilometres(miles: number): number {
    return miles * factor;
  }
}
console.log(Units.kilometres(26.2));
