import { afterEach, beforeEach, expect, type MockInstance, test, vi } from 'vitest';

import { session } from './caller.svelte';
import { serverClock } from './clock.svelte';
import { live } from './live.svelte';
import { preferences } from './preferences.svelte';
import { every } from './resource.svelte';

class Stream extends EventTarget {
  static all: Stream[] = [];
  onopen: (() => void) | undefined;
  onerror: (() => void) | undefined;
  closed = false;

  constructor() {
    super();
    Stream.all.push(this);
  }
  close(): void {
    this.closed = true;
  }
  send(name: string, data: unknown): void {
    this.dispatchEvent(new MessageEvent(name, { data: JSON.stringify(data) }));
  }
}

let hidden = false;
let stop: () => void;
let asked: MockInstance<typeof session.load>;

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal('EventSource', Stream);
  vi.spyOn(Math, 'random').mockReturnValue(1);
  vi.spyOn(document, 'hidden', 'get').mockImplementation(() => hidden);
  hidden = false;
  Stream.all = [];
  asked = vi.spyOn(session, 'load').mockResolvedValue();
  stop = live.start();
});
afterEach(() => {
  stop();
  preferences.paused = false;
  vi.useRealTimers();
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

const last = (): Stream => Stream.all.at(-1) ?? new Stream();
function show(visible: boolean): void {
  hidden = !visible;
  document.dispatchEvent(new Event('visibilitychange'));
}

test('a stream that ends is replaced without a loss that anybody sees', () => {
  last().onopen?.();
  expect(live.connected).toBe(true);
  last().onerror?.();
  expect(live.connected).toBe(true);
  expect(asked).not.toHaveBeenCalled();
  vi.advanceTimersByTime(1000);
  expect(Stream.all).toHaveLength(2);
  last().onopen?.();
  vi.advanceTimersByTime(60_000);
  expect(live.connected).toBe(true);
  expect(live.lostFor(serverClock.time())).toBe(0);
});

test('a stream that cannot be replaced is lost, and tried ever more rarely', () => {
  last().onopen?.();
  const times: number[] = [];
  for (let n = 0; n < 6; n++) {
    const before = Date.now();
    last().onerror?.();
    const streams = Stream.all.length;
    while (Stream.all.length === streams) vi.advanceTimersByTime(100);
    times.push(Date.now() - before);
  }
  expect(times).toEqual([1000, 2000, 4000, 8000, 15_000, 15_000]);
  expect(live.connected).toBe(false);
  expect(live.lostFor(serverClock.time())).toBeGreaterThan(40_000);
  expect(asked).toHaveBeenCalledTimes(5); // the login may have ended
  last().onopen?.();
  expect(live.connected).toBe(true);
});

test('a new stream that does not answer is a loss', () => {
  last().onopen?.();
  last().onerror?.();
  vi.advanceTimersByTime(10_000);
  expect(live.connected).toBe(false);
});

test('a hidden page has no stream and tries none', () => {
  last().onopen?.();
  show(false);
  expect(last().closed).toBe(true);
  vi.advanceTimersByTime(60_000);
  expect(Stream.all).toHaveLength(1);
  show(true);
  expect(Stream.all).toHaveLength(2);
});

test('during a pause nothing changes, and at its end everything is read', () => {
  last().onopen?.();
  let reads = 0;
  const end = every(5000, () => reads++);
  expect(reads).toBe(1);
  const { changes } = live;
  preferences.paused = true;
  last().send('events', [{ id: '1-0', at_ms: 1, kind: 'takeover' }]);
  last().send('gap', {});
  vi.advanceTimersByTime(30_000);
  expect([reads, live.changes, live.events.length]).toEqual([1, changes, 0]);
  preferences.paused = false;
  expect(reads).toBe(2);
  expect(live.changes).toBe(changes + 1);
  end();
  preferences.paused = true;
  preferences.paused = false;
  expect(reads).toBe(2);
});

test('who uses the dashboard is not asked by a hidden page', () => {
  const end = session.follow();
  session.state = 'unreachable';
  asked.mockClear();
  show(false);
  vi.advanceTimersByTime(60_000);
  expect(asked).not.toHaveBeenCalled();
  show(true);
  expect(asked).toHaveBeenCalledTimes(1);
  vi.advanceTimersByTime(2000);
  expect(asked).toHaveBeenCalledTimes(2);
  end();
});
