// Logical time in all its forms: every clock a script can read shows the time of the last delivered event.
import { RealDate, WeakMapClass, construct, define, defineOwn, getOwnPropertyDescriptor, uncurry, weakGet, weakSet } from "./primordials.js";
import { run } from "./journal.js";

const dateToText = uncurry(RealDate.prototype.toString);

function LogicalDate(...args) {
  if (new.target === undefined) return dateToText(new RealDate(run.now));
  return construct(RealDate, args.length === 0 ? [run.now] : args, new.target);
}

const installDate = (global) => {
  define(LogicalDate, "name", "Date");
  define(LogicalDate, "length", 7);
  defineOwn(LogicalDate, "prototype", { __proto__: null, value: RealDate.prototype, writable: false });
  define(LogicalDate, "now", function now() {
    return run.now;
  });
  define(LogicalDate, "parse", RealDate.parse);
  define(LogicalDate, "UTC", RealDate.UTC);
  define(RealDate.prototype, "constructor", LogicalDate);
  delete RealDate.prototype.toTemporalInstant;
  define(global, "Date", LogicalDate);
};

/** Without an argument, Intl formats the real now. */
const installIntl = (Intl) => {
  const prototype = Intl.DateTimeFormat.prototype;
  const formatOf = uncurry(getOwnPropertyDescriptor(prototype, "format").get);
  const toParts = uncurry(prototype.formatToParts);
  const bound = new WeakMapClass();
  defineOwn(prototype, "format", {
    __proto__: null,
    configurable: true,
    enumerable: false,
    get() {
      const real = formatOf(this);
      let logical = weakGet(bound, real);
      if (logical === undefined) {
        logical = (date) => real(date === undefined ? run.now : date);
        weakSet(bound, real, logical);
      }
      return logical;
    },
  });
  define(prototype, "formatToParts", function formatToParts(date) {
    return toParts(this, date === undefined ? run.now : date);
  });
};

export const performanceObject = {
  now: () => run.now - run.startedAt,
  get timeOrigin() {
    return run.startedAt;
  },
  toJSON: () => ({ timeOrigin: run.startedAt }),
};

export const installTime = (global) => {
  installDate(global);
  installIntl(global.Intl);
};
