import { lock } from "rewind:tools";

async function acquire(name: string) {
  const { token } = await lock.acquire({ name });
  return {
    token,
    async [Symbol.asyncDispose]() { await lock.release({ name, token }); },
  };
}

export default async function main(input: { names: string[] }) {
  const order: string[] = [];
  {
    await using a = await acquire(input.names[0]!);
    await using b = await acquire(input.names[1]!);
    using s = { [Symbol.dispose]() { order.push("sync"); } };
    order.push(a.token, b.token, typeof s);
  }
  order.push("after");
  return order;
}
