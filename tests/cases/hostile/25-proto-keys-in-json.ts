// ATTACK: __proto__, constructor and then as own keys of arguments and results
// RIGHT: completed; the keys are own properties of the result, whose prototype is Object.prototype; nothing is polluted; the journal has all of them.
import { probe } from "rewind:tools";
export default async function main() {
  const evil = JSON.parse('{"__proto__":{"polluted":true},"constructor":{"prototype":{"x":1}},"then":"not a function","toString":5,"length":3}');
  const { value } = await probe.echo({ value: evil });
  const plain: any = {};
  return { keys: Object.keys(value), own: Object.hasOwn(value, "__proto__"), proto: Object.getPrototypeOf(value) === Object.prototype, polluted: plain.polluted ?? null, x: plain.x ?? null, value };
}
