// Requests of pages to the API. What fails is an `Error` whose message a user of the page can act on.
"use strict";

const SESSION_ENDED = "Your session has ended. Sign in again in another tab, then repeat this here.";
const UNREACHABLE = "The server cannot be reached. Try again.";
const UNKNOWN_RESULT = "The server did not answer. Look whether the change was made before you try again.";

function describeFailure(response, answer) {
  if (response.status === 401) {
    return SESSION_ENDED;
  }
  const errors = (answer?.errors || []).map((error) => `${error.pointer.slice(1)} ${error.detail}`);
  return errors.join(". ") || answer?.detail || `The server answered with status ${response.status}. Try again.`;
}

// The answer of the API (null if it has no content), and its ETag.
async function requestApi(path, method = "GET", body = undefined, headers = {}) {
  let response;
  let text;
  try {
    response = await fetch(path, {
      method,
      headers: body === undefined ? headers : { "Content-Type": "application/json", ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    text = await response.text();
  } catch {
    throw new Error(method === "GET" || path.endsWith("?dryRun=true") ? UNREACHABLE : UNKNOWN_RESULT);
  }
  let answer = null;
  try {
    answer = text && JSON.parse(text);
  } catch {
    // Not of the API, but of a proxy: described by its status.
  }
  if (!response.ok || (text && answer === null)) {
    throw new Error(describeFailure(response, answer));
  }
  return { answer: answer || null, etag: response.headers.get("ETag") };
}
