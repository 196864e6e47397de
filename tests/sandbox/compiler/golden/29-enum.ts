enum Priority {
  Low = "low",
  High = "high",
}

export default async function main(input: { priority: Priority }) {
  return input.priority === Priority.High;
}
