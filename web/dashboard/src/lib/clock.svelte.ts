/** A difference that the rounding of a header to seconds and the way of an answer explain. */
const tolerance = 2000;

/**
 * Clock has the time of the server, once a second, for everything that shows an age. The clock of the browser may be wrong: ages are the
 * difference of two times of the server. It stands still while the page is hidden.
 */
class Clock {
  #offset = 0; // of the server's clock, in milliseconds
  now = $state(Date.now());

  constructor() {
    setInterval(() => {
      if (!document.hidden) this.now = this.time();
    }, 1000);
    document.addEventListener('visibilitychange', () => {
      this.now = this.time();
    });
  }

  /** time returns the time of the server now. */
  time(): number {
    return Date.now() + this.#offset;
  }

  /** learn learns the time of the server from the header Date of an answer. */
  learn(date: string | null): void {
    const at = date === null ? NaN : Date.parse(date);
    if (Number.isNaN(at)) return;
    const offset = at + 500 - Date.now();
    this.#offset = Math.abs(offset) <= tolerance ? 0 : offset;
  }
}

export const serverClock = new Clock();
