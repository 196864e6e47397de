export default async function main(input: { email: string }) {
  return await onboard({ email: input.email });
}
