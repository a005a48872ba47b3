// Processor time of the tasks of the page, from a trace. Unlike their duration, it hardly depends on what else the machine
// does.

/** Runs something, and returns its result with the processor time of each task of the page meanwhile, in milliseconds. */
export async function traced(browser, act) {
  const session = await browser.newBrowserCDPSession();
  const events = [];
  session.on('Tracing.dataCollected', ({ value }) => events.push(...value));
  const traceConfig = { includedCategories: ['toplevel', 'devtools.timeline'], recordMode: 'recordAsMuchAsPossible' };
  await session.send('Tracing.start', { traceConfig, transferMode: 'ReportEvents' });
  const result = await act();
  const complete = new Promise((resolve) => session.once('Tracing.tracingComplete', resolve));
  await session.send('Tracing.end');
  await complete;
  await session.detach();
  const thread = (event) => `${event.pid}:${event.tid}`;
  const ofPage = new Set(events.filter((event) => event.name === 'FireAnimationFrame').map(thread));
  const tasks = events.filter((event) => event.ph === 'X' && event.name.endsWith('RunTask') && ofPage.has(thread(event)));
  return { result, times: tasks.map((task) => (task.tdur ?? 0) / 1000) };
}
