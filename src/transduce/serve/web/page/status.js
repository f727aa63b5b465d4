// What the page says about the service: that it works, that it is slow, that it failed, and when the next attempt is.

import { part } from "./dom.js";
import { RequestError } from "./requests.js";

const SLOW_MS = 1500;
const LONGEST_WAIT_SECONDS = 30;

let slow = 0;
let again = 0; // the timer of the next attempt
let failures = 0; // attempts that were made by itself since the service last answered
let retryNow = null; // ends the wait for the next attempt

window.addEventListener("online", () => retryNow?.());

/** A request was sent. */
export function working() {
  stopWaiting();
  if (!slow) slow = setTimeout(() => show("The service is slow. Still waiting for its answer …"), SLOW_MS);
}

/** Everything was answered. */
export function worked() {
  clearTimeout(slow);
  stopWaiting();
  slow = failures = 0;
  show("");
}

/** Something failed. Where it may succeed later it is tried again, ever more rarely. */
export function failed(error, retry) {
  clearTimeout(slow);
  stopWaiting();
  slow = 0;
  if (!(error instanceof RequestError)) console.error(error);
  if (!error.isTemporary) {
    show(error.message, true, error.isRefusal ? null : retry);
    return;
  }
  retryNow = () => {
    stopWaiting();
    failures += 1; // and not at each key stroke that fails
    show("Trying again …");
    retry();
  };
  countDown(error, Math.max(error.retryAfterSeconds, Math.min(2 ** (failures + 1), LONGEST_WAIT_SECONDS)), retry);
}

function stopWaiting() {
  clearTimeout(again);
  retryNow = null;
}

function countDown(error, seconds, retry) {
  if (seconds <= 0) {
    retryNow();
    return;
  }
  show(`${error.message} Your text is kept. The page tries again by itself.`, true, retry, ` (${seconds} s)`);
  again = setTimeout(() => countDown(error, seconds - 1, retry), 1000);
}

/** Shows a message; `retry` is what the button next to it does, and `wait` how long until that happens by itself. */
export function show(message, isFailure = false, retry = null, wait = "") {
  const status = part("status");
  if (status.textContent !== message) status.textContent = message; // each change is read out
  status.parentElement.classList.toggle("failing", isFailure);
  part("retry").hidden = !retry;
  part("retry").textContent = `Try now${wait}`;
  part("retry").onclick = () => {
    stopWaiting();
    show("");
    retry();
  };
}
