```ts
export default async function main() {
  return 1;
}
```
