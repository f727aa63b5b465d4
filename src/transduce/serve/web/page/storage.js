// What the browser keeps. A browser may refuse to: then nothing is kept, and the page works all the same.

function reading(storage, name, otherwise) {
  try {
    return JSON.parse(window[storage].getItem(`transduce.${name}`)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

function writing(storage, name, value) {
  try {
    if (value === null) window[storage].removeItem(`transduce.${name}`);
    else window[storage].setItem(`transduce.${name}`, JSON.stringify(value));
    return true;
  } catch {
    return false; // blocked or full
  }
}

// Kept until the tab is closed: the text and the key.
export const readSession = (name, otherwise) => reading("sessionStorage", name, otherwise);
export const writeSession = (name, value) => writing("sessionStorage", name, value);

// Kept for good: choices, the glossary, and the history if it is turned on.
export const readLasting = (name, otherwise) => reading("localStorage", name, otherwise);
export const writeLasting = (name, value) => writing("localStorage", name, value);
