const { github } = require("rewind:tools");
module.exports = async function main(input) {
  return await github.list_issues({ repo: input.repo });
};
