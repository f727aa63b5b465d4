// Small tools for the document.

export const part = (id) => document.getElementById(id);

/** Returns a new element with properties and children. */
export function make(tag, properties = {}, ...children) {
  const { role, ...plain } = properties;
  const node = Object.assign(document.createElement(tag), plain);
  if (role) node.setAttribute("role", role);
  node.append(...children);
  return node;
}

/** Says something to users of screen readers. */
export function announce(message) {
  part("announcer").textContent = message;
}

/** Makes a button open and close what it controls; returns a function that does the same, without moving the focus. */
export function disclosure(button, shown, onOpen = () => {}) {
  const set = (open) => {
    shown.hidden = !open;
    button.setAttribute("aria-expanded", String(open));
  };
  button.addEventListener("click", () => {
    set(shown.hidden);
    if (!shown.hidden) onOpen();
  });
  return set;
}

/** Returns a number between 0 and 1 as a percentage. */
export const percent = (share) => `${share < 0.005 ? "<1" : Math.round(100 * share)} %`;
