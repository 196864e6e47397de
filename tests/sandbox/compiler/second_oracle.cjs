// {name: schema} on stdin, {name: {text} or {error}} on stdout: the types that json-schema-to-typescript makes.
const { compile } = require("json-schema-to-typescript");

const options = {
  additionalProperties: false, // closed where the schema does not say, as our inputs are
  bannerComment: "",
  format: false,
  $refOptions: { resolve: { file: false, http: false } },
};

const main = async () => {
  const chunks = [];
  for await (const chunk of process.stdin) chunks.push(chunk);
  const answer = {};
  for (const [name, schema] of Object.entries(JSON.parse(Buffer.concat(chunks)))) {
    try {
      answer[name] = { text: await compile(schema, "Root", options) };
    } catch (error) {
      answer[name] = { error: String(error.message) };
    }
  }
  process.stdout.write(JSON.stringify(answer));
};

main();
