// Fetches JSON from the process that serves the page. Pages of other sites cannot send this header.

export const REQUEST_TIMEOUT_MS = 6000;
const VERSION = 1;

export async function fetchDocument(path, query = {}) {
  const gone = new AbortController();
  const timer = setTimeout(() => gone.abort(), REQUEST_TIMEOUT_MS);
  try {
    const url = new URL(`ui/api/${path}`, document.baseURI);
    for (const [key, value] of Object.entries(query)) if (value !== "") url.searchParams.set(key, value);
    const answer = await fetch(url, { signal: gone.signal, cache: "no-store", credentials: "same-origin", redirect: "error", headers: { "X-Requested-With": "mm2" } });
    const found = await answer.json();
    if (found.version !== VERSION) throw new Error("mm2 was updated: reload this page");
    if (!answer.ok) throw new Error(found.error || `HTTP status ${answer.status}`);
    return found;
  } finally {
    clearTimeout(timer);
  }
}
