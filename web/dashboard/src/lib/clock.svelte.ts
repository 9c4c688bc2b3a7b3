/** now is the time, once a second, for everything that shows an age. It stands still while the page is hidden. */
class Clock {
  now = $state(Date.now());

  constructor() {
    setInterval(() => {
      if (!document.hidden) this.now = Date.now();
    }, 1000);
    document.addEventListener('visibilitychange', () => {
      this.now = Date.now();
    });
  }
}

export const ticking = new Clock();
