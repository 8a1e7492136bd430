// Runs a request at intervals: the pause begins when the response has arrived, and may be set by it.
// `now` runs it at once. While the page is hidden, only requests with `always` are run.

import { recordFailure } from "./freshness.js";

export function poll(everyMs, doing, always = false) {
  let timer = null, running = false, again = false;
  async function run() {
    clearTimeout(timer);
    if (running) {
      again = true;
      return;
    }
    running = true;
    let pauseMs = everyMs;
    try {
      if (always || !document.hidden) pauseMs = (await doing()) || everyMs;
    } catch (error) {
      recordFailure(error);
    }
    running = false;
    timer = setTimeout(run, again ? 0 : pauseMs);
    again = false;
  }
  return { now: run };
}
