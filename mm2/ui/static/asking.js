// What is asked of the process that serves the page. A page from elsewhere cannot send this header.

export const ANSWER_MS = 6000;
const VERSION = 1;

export async function ask(path, query = {}) {
  const gone = new AbortController();
  const timer = setTimeout(() => gone.abort(), ANSWER_MS);
  try {
    const url = new URL(`ui/api/${path}`, document.baseURI);
    for (const [key, value] of Object.entries(query)) if (value !== "") url.searchParams.set(key, value);
    const answer = await fetch(url, { signal: gone.signal, cache: "no-store", credentials: "same-origin", redirect: "error", headers: { "X-Requested-With": "mm2" } });
    const found = await answer.json();
    if (found.version !== VERSION) throw new Error("another release answers: load this page again");
    if (!answer.ok) throw new Error(found.error || `the answer is ${answer.status}`);
    return found;
  } finally {
    clearTimeout(timer);
  }
}
