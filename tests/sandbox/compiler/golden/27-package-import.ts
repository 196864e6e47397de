import { Octokit } from "@octokit/rest";
import _ from "lodash";

export default async function main() {
  return _.uniq([1, 1]);
}
