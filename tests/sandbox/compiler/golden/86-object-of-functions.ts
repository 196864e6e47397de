export default {
  async main(input: { repo: string }) {
    return input.repo;
  },
};
