// Library 0: URL and URLSearchParams.
export { URL, URLSearchParams } from "whatwg-url";
