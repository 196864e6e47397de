export default async function main() {
  return async(async(async(async(async(async(async(async(async(async(async(async(async(async(async(async(async(async(async(async(async(async(async(async(1))))))))))))))))))))))));
}
