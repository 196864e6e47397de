class Counter {
  constructor(private readonly start: number) {}
  next() {
    return this.start + 1;
  }
}

namespace Config {
  export const limit = 10;
}

export default async function main() {
  return new Counter(Config.limit).next();
}
