// Event and EventTarget, as far as a sandbox without a document needs them.
import { TypeErrorClass, apply, define, newList } from "./primordials.js";
import { reportUncaught, run } from "./journal.js";

const NONE = 0;

export class Event {
  #type;
  #bubbles;
  #cancelable;
  #composed;
  #time = run.now - run.startedAt;
  #target = null;
  #prevented = false;
  #stopped = false;
  #trusted = false;

  constructor(type, init = {}) {
    if (arguments.length === 0) throw new TypeErrorClass("an Event needs a type");
    this.#type = `${type}`;
    this.#bubbles = !!init?.bubbles;
    this.#cancelable = !!init?.cancelable;
    this.#composed = !!init?.composed;
  }

  get type() {
    return this.#type;
  }
  get target() {
    return this.#target;
  }
  get currentTarget() {
    return this.#target;
  }
  get bubbles() {
    return this.#bubbles;
  }
  get cancelable() {
    return this.#cancelable;
  }
  get composed() {
    return this.#composed;
  }
  get defaultPrevented() {
    return this.#prevented;
  }
  get eventPhase() {
    return NONE;
  }
  get isTrusted() {
    return this.#trusted;
  }
  get timeStamp() {
    return this.#time;
  }
  preventDefault() {
    if (this.#cancelable) this.#prevented = true;
  }
  stopPropagation() {}
  stopImmediatePropagation() {
    this.#stopped = true;
  }
  composedPath() {
    return this.#target === null ? [] : [this.#target];
  }

  static aim(event, target, trusted) {
    event.#target = target;
    event.#trusted = trusted;
    event.#stopped = false;
  }
  static isEvent(value) {
    return typeof value === "object" && value !== null && #type in value;
  }
  static typeOf(event) {
    return event.#type;
  }
  static wasStopped(event) {
    return event.#stopped;
  }
  static wasPrevented(event) {
    return event.#prevented;
  }
}

const { aim, isEvent, typeOf, wasStopped, wasPrevented } = Event;
for (const name of ["aim", "isEvent", "typeOf", "wasStopped", "wasPrevented"]) delete Event[name];

const invoke = (entry, target, event) => {
  try {
    const { listener } = entry;
    if (typeof listener === "function") apply(listener, target, [event]);
    else {
      const { handleEvent } = listener;
      if (typeof handleEvent === "function") apply(handleEvent, listener, [event]);
    }
  } catch (error) {
    reportUncaught(error);
  }
};

export class EventTarget {
  #listeners = newList();

  addEventListener(type, listener, options) {
    if (listener === null || listener === undefined) return;
    const capture = typeof options === "boolean" ? options : !!options?.capture;
    const once = typeof options === "object" && options !== null && !!options.once;
    const signal = typeof options === "object" && options !== null ? options.signal : undefined;
    if (signal?.aborted) return;
    const name = `${type}`;
    const list = this.#listeners;
    for (let i = 0; i < list.length; i++) {
      const entry = list[i];
      if (!entry.removed && entry.type === name && entry.listener === listener && entry.capture === capture) return;
    }
    const entry = { __proto__: null, type: name, listener, capture, once, removed: false };
    list[list.length++] = entry;
    if (signal !== undefined) onAbort(signal, () => this.#remove(entry));
  }

  removeEventListener(type, listener, options) {
    const capture = typeof options === "boolean" ? options : !!options?.capture;
    const name = `${type}`;
    const list = this.#listeners;
    for (let i = 0; i < list.length; i++) {
      const entry = list[i];
      if (entry.type === name && entry.listener === listener && entry.capture === capture) {
        this.#remove(entry);
        return;
      }
    }
  }

  #remove(entry) {
    entry.removed = true;
    const list = this.#listeners;
    const kept = newList();
    for (let i = 0; i < list.length; i++) if (list[i] !== entry) kept[kept.length++] = list[i];
    this.#listeners = kept;
  }

  static fire(target, event, trusted) {
    aim(event, target, trusted);
    const list = target.#listeners;
    const { length } = list;
    for (let i = 0; i < length && !wasStopped(event); i++) {
      const entry = list[i];
      if (entry.removed || entry.type !== typeOf(event)) continue;
      if (entry.once) target.#remove(entry);
      invoke(entry, target, event);
    }
    return !wasPrevented(event);
  }
}

const { fire } = EventTarget;
delete EventTarget.fire;
define(EventTarget.prototype, "dispatchEvent", function dispatchEvent(event) {
  if (!isEvent(event)) throw new TypeErrorClass("dispatchEvent needs an Event");
  return fire(this, event, false);
});

let onAbort = () => undefined;
/** abort.js gives the way to follow a signal; events.js cannot import it back. */
export const setOnAbort = (follow) => {
  onAbort = follow;
};
export const fireEvent = (target, type) => fire(target, new Event(type), true);

define(Event.prototype, Symbol.toStringTag, "Event");
define(EventTarget.prototype, Symbol.toStringTag, "EventTarget");
