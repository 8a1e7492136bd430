// Polls: each waits for its answer, and then for a while, or as long as that says; `now` asks at once.
// Of a page that nobody sees only `always` goes on.

import { failed } from "./freshness.js";

export function poll(everyMs, doing, always = false) {
  let timer = null, running = false, again = false;
  async function turn() {
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
      failed(error);
    }
    running = false;
    timer = setTimeout(turn, again ? 0 : pauseMs);
    again = false;
  }
  return { now: turn };
}
