// Requests to the service, and its errors.

import { part } from "./dom.js";
import { readSession, writeSession } from "./storage.js";

let key = readSession("key", "");

export const hasKey = () => key !== "";

export function setKey(given) {
  key = given.trim();
  writeSession("key", key || null);
}

/** What went wrong, in words for the user. */
export class RequestError extends Error {
  constructor(message, { status = 0, code = "", retryAfterSeconds = 0 } = {}) {
    super(message);
    Object.assign(this, { status, code, retryAfterSeconds });
  }

  /** Whether the same request is refused again, whenever it is sent. */
  get isRefusal() {
    return this.status >= 400 && this.status < 500 && ![408, 429].includes(this.status);
  }

  /** Whether the same request may succeed later. */
  get isTemporary() {
    return this.status === 0 || this.status === 503 || this.status === 502 || this.status === 504;
  }
}

/** Returns the response, if it is a good one. Sends `fields` as JSON, or `body` as it is. */
export async function send(path, { method, fields, body, headers = {}, signal } = {}) {
  const given = { ...headers };
  if (key) given.Authorization = `Bearer ${key}`;
  if (fields) given["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, {
      method: method ?? (fields || body ? "POST" : "GET"),
      headers: given,
      body: fields ? JSON.stringify(fields) : body,
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new RequestError("The service cannot be reached.");
  }
  if (!response.ok) throw await refusal(response);
  return response;
}

async function refusal(response) {
  let described = {};
  try {
    described = (await response.json()).error ?? {};
  } catch {
    // no answer of ours: a proxy's, say
  }
  if (response.status === 401) {
    described.message = `${key ? "This key is not valid: enter another one" : "A key is needed: enter it"} at the top of the page.`;
    part("key-form").hidden = false;
  }
  const message = described.message ?? `The service failed (${response.status}).`;
  const retryAfterSeconds = Number(response.headers.get("Retry-After")) || 0;
  return new RequestError(message, { status: response.status, code: described.code, retryAfterSeconds });
}

/** Returns the JSON of the answer. */
export async function ask(path, options) {
  const response = await send(path, options);
  return whole(response.json());
}

/** Yields the events of a stream as [name, data]. */
export async function* events(path, fields, signal) {
  const response = await send(path, { fields, headers: { Accept: "text/event-stream" }, signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await whole(reader.read());
    if (done) return;
    rest += value;
    const written = rest.split("\n\n");
    rest = written.pop();
    for (const event of written) {
      const name = /^event: ([^\n]*)/m.exec(event)?.[1];
      const data = /^data: ([^\n]*)/m.exec(event)?.[1]; // which may hold U+2028: `.` and `$` take it for a line break
      if (name === "error") {
        const { code, message } = JSON.parse(data).error;
        throw new RequestError(message, { status: 503, code });
      }
      if (name) yield [name, JSON.parse(data)];
    }
  }
}

/** Waits for the rest of an answer, which may break off. */
async function whole(promise) {
  try {
    return await promise;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new RequestError("The answer of the service broke off.");
  }
}
