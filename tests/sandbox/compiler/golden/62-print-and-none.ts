export default async function main() {
  print("hello");
  return None;
}
