import { box } from "rewind:tools";

export default async function main() {
  const { id } = await box.open({});
  let release!: () => void;
  const gate = new Promise<void>((r) => { release = r; });
  void release;
  try {
    await gate;
  } finally {
    console.log("never reached", id);
  }
}
