function logged(target: unknown) {}

@logged
class Job {
  run() {
    return 1;
  }
}

export default async function main() {
  return new Job().run();
}
