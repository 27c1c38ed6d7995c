// Elements and numbers. Text from a dump only ever becomes a text node or an attribute value.

const SVG = "http://www.w3.org/2000/svg";

/** Return an HTML element; `on...` attributes are listeners, null and false ones are left out. */
function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Return an SVG element. */
function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined),
  );
  return element;
}

/** Put `children` in place of what `element` holds. */
function replace(element, ...children) {
  element.replaceChildren(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined),
  );
}

/** 1234567 -> "1,234,567". */
function count(number) {
  return Math.round(number).toLocaleString("en-US");
}

/** At most three significant digits, never in exponents above a thousandth. */
function short(number) {
  if (number === 0) return "0";
  const size = Math.abs(number);
  if (size < 1e-3 || size >= 1e6) return number.toExponential(2);
  return String(Number(number.toPrecision(size >= 1000 ? 6 : 3)));
}

/** Bytes with a binary unit. */
function bytes(number) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (number >= 1024 && unit < units.length - 1) {
    number /= 1024;
    unit += 1;
  }
  return `${unit ? short(number) : Math.round(number)} ${units[unit]}`;
}

/** Seconds with a unit. */
function seconds(number) {
  if (number >= 1) return `${short(number)} s`;
  if (number >= 1e-3) return `${short(number * 1e3)} ms`;
  return `${short(number * 1e6)} µs`;
}

/** Microseconds with a unit. */
function microseconds(number) {
  return seconds(number * 1e-6);
}

/** A count with a decimal unit. */
function decimal(number) {
  const units = ["", " K", " M", " G", " T", " P"];
  let unit = 0;
  while (number >= 1000 && unit < units.length - 1) {
    number /= 1000;
    unit += 1;
  }
  return `${short(number)}${units[unit]}`;
}

/** An error: a number, or text where it is not finite. */
function figure(value) {
  return value === 0
    ? "0"
    : typeof value === "number"
      ? value.toExponential(2)
      : String(value ?? "–");
}

/**
 * Let arrow keys move the focus within `container` over what `selector` finds; one stop for Tab.
 * `move(from, key)` may return the next element; the default is the order of the document.
 */
function roving(container, selector, { move = null, onFocus = null } = {}) {
  const items = () =>
    [...container.querySelectorAll(selector)].filter((item) => item.getClientRects().length);
  const steps = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 };
  container.addEventListener("keydown", (event) => {
    const from = event.target.closest?.(selector);
    if (!from || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const all = items();
    let next = null;
    if (event.key === "Home") next = all[0];
    else if (event.key === "End") next = all[all.length - 1];
    else if (event.key in steps)
      next = move ? move(from, event.key) : all[all.indexOf(from) + steps[event.key]];
    else return;
    event.preventDefault();
    if (next) focusIn(container, selector, next);
    if (next && onFocus) onFocus(next);
  });
}

/** Make `item` the one stop for Tab in `container`, and focus it. */
function focusIn(container, selector, item, options = {}) {
  stopAt(container, selector, item);
  item.focus(options);
}

/** Make `item` the one stop for Tab in `container`. */
function stopAt(container, selector, item) {
  for (const each of container.querySelectorAll(selector))
    each.setAttribute("tabindex", each === item ? "0" : "-1");
}
