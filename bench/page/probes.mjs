// What the browser is asked to measure. These functions run in the page.

/** Records long tasks, the delay of keys, and when the end of the conversation is first shown. */
export function install(lastText) {
  const probes = { tasks: [], delays: [], shown: null };
  window.probes = probes;
  new PerformanceObserver((list) => {
    for (const task of list.getEntries()) probes.tasks.push(task.duration);
  }).observe({ type: 'longtask', buffered: true });
  const paint = new MessageChannel();
  let waiting = [];
  // A message that is sent in a frame arrives after the frame was painted.
  paint.port1.onmessage = () => {
    const now = performance.now();
    probes.delays.push(...waiting.map((pressed) => now - pressed));
    waiting = [];
  };
  const pressed = (event) => {
    if (waiting.length === 0) requestAnimationFrame(() => paint.port2.postMessage(null));
    waiting.push(event.timeStamp);
  };
  addEventListener('keydown', pressed, true);
  const look = () => {
    const messages = document.querySelector('[role=region][aria-label=Messages]');
    if (messages?.textContent.includes(lastText)) probes.shown = performance.now();
    else requestAnimationFrame(look);
  };
  look();
}

/** Takes what was measured since the last time. */
export function take() {
  const { tasks, delays } = window.probes;
  window.probes.tasks = [];
  window.probes.delays = [];
  return { tasks, delays };
}

/** Loads all older messages, page by page. */
export async function loadAll() {
  const messages = document.querySelector('[role=region][aria-label=Messages]');
  const button = () => [...messages.children].find((child) => child.textContent === 'Show earlier messages');
  while (button()) {
    await new Promise((resolve) => {
      const observer = new MutationObserver(() => {
        observer.disconnect();
        resolve();
      });
      observer.observe(messages, { childList: true, subtree: true });
      button().click();
    });
    await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
  }
}

/** Waits until an answer is complete and its run has ended. */
export async function ended(answer) {
  const isOver = () =>
    !document.querySelector('button[aria-label=Stop]') &&
    [...document.querySelectorAll('.answer')].at(-1)?.textContent.includes(`Answer ${answer} ends.`);
  while (!isOver()) await new Promise((resolve) => setTimeout(resolve, 50));
}

/** The headings of an answer. */
export function partsOf(answer) {
  const headings = [...document.querySelectorAll('.answer .heading')].map((heading) => heading.textContent);
  return headings.filter((text) => text.startsWith(`Part ${answer}.`));
}

/** Scrolls through the conversation from its beginning to its end. Returns the numbers of the questions that were seen. */
export async function scrollThrough() {
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  const messages = document.querySelector('[role=region][aria-label=Messages]');
  const scroller = messages.parentElement;
  const seen = new Set();
  scroller.scrollTop = 0;
  for (let isLast = false; !isLast; ) {
    for (let done = 0; done < 3; done += 1) await frame();
    for (const question of messages.querySelectorAll('.user p')) {
      const found = /^Question (\d+):/.exec(question.textContent);
      if (found) seen.add(Number(found[1]));
    }
    isLast = scroller.scrollTop + scroller.clientHeight > scroller.scrollHeight - 50;
    scroller.scrollTop += 1_500;
  }
  return [...seen].sort((one, other) => one - other);
}
