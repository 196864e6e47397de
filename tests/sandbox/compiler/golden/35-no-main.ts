import { github } from "rewind:tools";

const issues = await github.list_issues({ repo: "acme/site" });
console.log(issues.length);
